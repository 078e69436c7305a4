#include "paceline/core/schedule/replay/replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>

namespace paceline::schedule {
namespace {

// A shorter wait does not count, because the mean was back already.
constexpr std::chrono::microseconds kAtOnce{20};

}  // namespace

Replay::Replay(const Model& model, GradientPath& path, TraceLog& trace, ComputeKernel* kernel)
    : model_(model),
      path_(path),
      trace_(trace),
      kernel_(kernel),
      crosses_barrier_(path.dispatch().plan().crosses_barrier) {}

// A late wake-up does not delay later work: a computation that is a wait keeps its own clock.
void Replay::compute(double seconds) {
  if (seconds <= 0) return;
  if (kernel_ != nullptr) {
    kernel_->work(seconds);
    now_ = Clock::now();
    return;
  }
  now_ += std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  std::this_thread::sleep_until(now_);
}

void Replay::wait_for(int place) {
  const auto before = Clock::now();
  path_.wait(place);
  const auto after = Clock::now();
  if (after - before <= kAtOnce) return;
  now_ = std::max(now_, after);
  trace_.record({TraceLane::waiting, fmt::format("for gradient {}", place),
                 before.time_since_epoch().count(), after.time_since_epoch().count()});
}

void Replay::forward() {
  const TraceScope scope(trace_, TraceLane::training, "forward");
  for (int place = model_.size() - 1; place >= 0; --place) {
    const Tensor& tensor = model_.sent(place);
    if (crosses_barrier_) wait_for(place);
    compute(tensor.forward + (crosses_barrier_ && has_stepped_ ? tensor.update : 0));
  }
}

void Replay::backward() {
  const TraceScope scope(trace_, TraceLane::training, "backward");
  for (int place = 0; place < model_.size(); ++place) {
    compute(model_.sent(place).backward);
    path_.ready(place);
  }
}

ReplayedStep Replay::step() {
  if (!crosses_barrier_ || !has_stepped_) now_ = Clock::now();
  const auto begin = now_;
  forward();
  backward();
  if (!crosses_barrier_) {
    {
      const TraceScope scope(trace_, TraceLane::waiting, "for all gradients");
      path_.finish();
    }
    const TraceScope scope(trace_, TraceLane::training, "update");
    now_ = std::max(now_, Clock::now());
    compute(model_.update());
  }
  has_stepped_ = true;
  const double seconds = std::chrono::duration<double>(now_ - begin).count();
  return {seconds, std::max(0.0, seconds - model_.compute())};
}

}  // namespace paceline::schedule
