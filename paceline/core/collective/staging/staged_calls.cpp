#include "paceline/core/collective/staging/staged_calls.h"

#include <fmt/format.h>

#include <algorithm>

namespace paceline::collective {

StagedCalls::StagedCalls(transport::Reactor& reactor, std::function<void()> on_passed,
                         std::function<void(Failure)> on_failure)
    : reactor_(reactor),
      on_passed_(std::move(on_passed)),
      on_failure_(std::move(on_failure)),
      naps_(reactor) {}

StagedCalls::~StagedCalls() {
  if (!waits_.empty()) reactor_.remove(*this);
}

void StagedCalls::add(Wait wait) {
  if (waits_.empty()) {
    reactor_.add(*this);
    set_asleep(reactor_.is_asleep());
  }
  naps_.begin_anew();
  waits_.push_back(std::move(wait));
}

void StagedCalls::await(std::shared_ptr<StagedCall> call, StagedCall::Moment moment,
                        const Work::State& work, Deadline deadline) {
  add({.call = std::move(call),
       .moment = moment,
       .description = work.description,
       .deadline = deadline});
}

void StagedCalls::bring_back(std::shared_ptr<StagedCall> call, std::shared_ptr<Work::State> work,
                             Deadline deadline) {
  const auto begun = call->begin_return();
  const std::string description = work->description;
  add({.call = std::move(call),
       .moment = StagedCall::Moment::output,
       .work = std::move(work),
       .description = description,
       .deadline = deadline});
  if (!begun) on_failure_(broken(waits_.back(), begun.error()));
}

// A nap that went on would end in another thread's destructor.
void StagedCalls::stop_looking() {
  reactor_.remove(*this);
  naps_.set_asleep(false);
}

bool StagedCalls::poll() {
  std::vector<Wait> over;
  bool moved = false;
  std::optional<Failure> failure;
  for (Wait& wait : waits_) {
    const std::size_t before = wait.call->arrived();
    auto is_over = wait.call->has_passed(wait.moment);
    if (!is_over) {
      failure = broken(wait, is_over.error());
      break;
    }
    if (wait.call->arrived() != before) wait.since = Clock::now();
    moved = moved || *is_over || wait.call->arrived() != before;
    if (*is_over) over.push_back(std::move(wait));
  }
  if (!moved && !failure) return false;
  naps_.begin_anew();
  std::erase_if(waits_, [](const Wait& wait) { return wait.call == nullptr; });
  if (waits_.empty()) stop_looking();
  for (const Wait& wait : over) {
    if (wait.work) wait.work->finish(std::nullopt);
  }
  if (failure) on_failure_(*failure);
  else on_passed_();
  return true;
}

Deadline StagedCalls::next_deadline() const {
  Deadline next;
  for (const Wait& wait : waits_) next = next.sooner(wait.deadline);
  return next;
}

std::string StagedCalls::text_of(const Wait& wait) {
  const auto what = [&]() -> std::string_view {
    switch (wait.moment) {
      case StagedCall::Moment::called: return "do what its stream had been given before";
      case StagedCall::Moment::input: return "copy the input to the host";
      case StagedCall::Moment::sum: return "sum up";
      default: return "copy the output back";
    }
  }();
  return fmt::format("{} for {} to {}", wait.description, wait.call->device().name(), what);
}

Failure StagedCalls::broken(const Wait& wait, const Failure& why) {
  return {why.fault, fmt::format("in {}, which has failed: {}", text_of(wait), why.what), {}};
}

std::optional<Failure> StagedCalls::overdue(Clock::time_point now) const {
  const auto late =
      std::ranges::find_if(waits_, [now](const Wait& wait) { return wait.deadline.passed(now); });
  if (late == waits_.end()) return std::nullopt;
  return Failure{Fault::timed_out,
                 fmt::format("in {}; look at what else was given to that device", text_of(*late)),
                 {}};
}

std::vector<std::string> StagedCalls::stalled(Clock::time_point now, Clock::duration patience) {
  std::vector<std::string> texts;
  for (Wait& wait : waits_) {
    if (wait.is_told || now < wait.since + patience) continue;
    wait.is_told = true;
    texts.push_back(text_of(wait));
  }
  return texts;
}

void StagedCalls::failed(const Failure& why) {
  if (waits_.empty()) return;
  stop_looking();
  for (const Wait& wait : std::exchange(waits_, {})) {
    if (!wait.work) continue;  // the group ends it
    wait.call->settle();
    wait.work->finish(why);
  }
}

}  // namespace paceline::collective
