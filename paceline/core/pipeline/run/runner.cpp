#include "paceline/core/pipeline/run/runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <exception>
#include <map>
#include <ranges>
#include <utility>

#include "paceline/core/base/check.h"
#include "paceline/core/base/log.h"
#include "paceline/core/pipeline/check/check_order.h"
#include "paceline/core/pipeline/run/rank_progress.h"

namespace paceline::pipeline {
namespace {

double seconds_between(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

// The failure of a transfer, told by what it carried.
Error named(const Error& error, const std::string& doing) {
  Failure failure = error.failure();
  failure.what = fmt::format("pipeline: {}: {}", doing, failure.what);
  return Error(std::move(failure));
}

std::int64_t nanoseconds(Clock::time_point time) {
  return std::chrono::nanoseconds(time.time_since_epoch()).count();
}

char letter_of(Kind kind) {
  switch (kind) {
    case Kind::forward: return 'F';
    case Kind::backward: return 'B';
    case Kind::weight: return 'W';
  }
  return '?';
}

}  // namespace

class Runner::State {
 public:
  State(Communicator& group, Placement placement, StageWork& work, RunnerOptions options)
      : group_(group),
        placement_(std::move(placement)),
        work_(work),
        options_(options),
        progress_(placement_, std::max(1, options.ahead)) {
    PACELINE_CHECK(group.size() == placement_.ranks,
                   "a pipeline of {} ranks runs in a group of {}: give it a group of as many ranks",
                   placement_.ranks, group.size());
    PACELINE_CHECK(placement_.chunks() <= static_cast<int>(kMostChunks),
                   "a rank has {} stages, more than {}: use fewer chunks", placement_.chunks(),
                   kMostChunks);
  }
  ~State() {
    if (!is_in_flight()) return;
    if (std::uncaught_exceptions() > exceptions_) group_.unwind();
    else
      group_.abort(
          "its pipeline ended with messages in flight; before that call Runner::drain() for those "
          "it sends, and Runner::forget() for those it expects");
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  StepReport run(std::span<const Operation> operations, std::uint64_t first_turn,
                 std::optional<Operation> next) {
    first_turn_ = first_turn;
    report_ = {};
    progress_.append(operations);
    if (next) progress_.expect(*next);
    while (!progress_.is_done()) {
      post();
      if (const auto awaited = progress_.awaited()) wait_for(*awaited);
      const Operation operation = progress_.begin();
      compute(operation);
      if (const auto message = transfer_after(placement_, operation)) send(*message);
      release_sent();
    }
    post();
    report_.peak_live = peak_live_;
    return std::move(report_);
  }

  void expect(const Operation& operation) {
    progress_.expect(operation);
    post();
  }

  void forget(const Operation& operation) {
    const Transfer transfer = *transfer_before(placement_, operation);
    progress_.forget(transfer);
    if (!receiving_.contains(transfer)) receive(transfer);
    const auto received = receiving_.extract(transfer);
    wait_for(received.mapped(), transfer);
  }

  void send_unused(const Transfer& transfer) { send(transfer); }

  void drain() {
    while (!sending_.empty()) {
      finish(sending_.front());
      sending_.pop_front();
    }
  }

 private:
  struct Sending {
    Transfer transfer;
    std::vector<Work> works;
  };
  // A receive that was refused when it was posted is told when its message is needed: those that
  // are needed before it may have failed for the same loss, or be there.
  struct Receiving {
    std::vector<Work> works;
    std::optional<Error> refused;
  };

  bool is_in_flight() const {
    const auto is_done = [](const auto& message) {
      return std::ranges::all_of(message.works, &Work::done);
    };
    return !std::ranges::all_of(sending_, is_done) ||
           !std::ranges::all_of(receiving_ | std::views::values, is_done);
  }

  int here() const { return group_.world_rank(group_.rank()); }
  int there(const Transfer& transfer) const { return group_.world_rank(transfer.peer); }
  std::string awaiting(const Transfer& transfer) const {
    return fmt::format("rank {} waited for {} from rank {}", here(), text_of(transfer),
                       there(transfer));
  }
  std::string sending_to(const Transfer& transfer) const {
    return fmt::format("rank {} sent {} to rank {}", here(), text_of(transfer), there(transfer));
  }
  // A transfer that waits rightly for long is not told as a stall; the runner tells of the one that
  // holds it up.
  PointToPointOptions options_of(const Transfer& transfer, std::size_t tensor) const {
    const std::uint64_t turn = first_turn_ + static_cast<std::uint64_t>(transfer.micro_batch);
    return {.tag = tag_of(placement_, transfer, static_cast<std::uint32_t>(tensor), turn),
            .within = options_.within,
            .tells_stalls = false};
  }
  void check_tensors(const Transfer& transfer, std::size_t tensors) const {
    PACELINE_CHECK(tensors > 0 && tensors <= kMostTensors,
                   "{} has {} tensors; it must have 1 to {}", text_of(transfer), tensors,
                   kMostTensors);
  }

  void post() {
    while (const auto transfer = progress_.next_receive()) receive(*transfer);
  }

  void receive(const Transfer& transfer) {
    const std::vector<Buffer> room = work_.room(transfer);
    check_tensors(transfer, room.size());
    Receiving& receiving = receiving_[transfer];
    try {
      for (std::size_t i = 0; i < room.size(); ++i)
        receiving.works.push_back(group_.recv(room[i], transfer.peer, options_of(transfer, i)));
    } catch (const Error& error) {
      receiving.refused = named(error, awaiting(transfer));
    }
  }

  void wait_for(const Transfer& transfer) {
    const auto begin = Clock::now();
    const auto receiving = receiving_.find(transfer);
    wait_for(receiving->second, transfer);
    receiving_.erase(receiving);
    progress_.arrived(transfer);
    report_.idle_seconds += seconds_between(begin, Clock::now());
  }
  void wait_for(const Receiving& receiving, const Transfer& transfer) const {
    for (const Work& one : receiving.works) wait(one, transfer);
    if (receiving.refused) throw Error(*receiving.refused);
  }
  void wait(const Work& one, const Transfer& transfer) const {
    for (Deadline patience = Deadline::in(options_.stall);; patience = Deadline::never()) {
      try {
        return one.wait(patience);
      } catch (const Error& error) {
        if (one.done()) throw named(error, awaiting(transfer));
        if (error.fault() != Fault::timed_out) throw;
        warn(fmt::format("stall: for {:g} s rank {} waits for {} from rank {}",
                         std::chrono::duration<double>(options_.stall).count(), here(),
                         text_of(transfer), there(transfer)));
      }
    }
  }

  void compute(const Operation& operation) {
    if (operation.kind == Kind::forward) peak_live_ = std::max(peak_live_, ++live_);
    const auto begin = Clock::now();
    work_.compute(operation);
    const auto end = Clock::now();
    if (operation.kind == (options_.split_backward ? Kind::weight : Kind::backward)) --live_;
    report_.compute_seconds += seconds_between(begin, end);
    report_.operations.push_back({operation, begin, end});
  }

  void send(const Transfer& transfer) {
    const std::vector<ConstBuffer> message = work_.message(transfer);
    check_tensors(transfer, message.size());
    sending_.push_back({transfer, {}});
    try {
      for (std::size_t i = 0; i < message.size(); ++i)
        sending_.back().works.push_back(
            group_.send(message[i], transfer.peer, options_of(transfer, i)));
    } catch (const Error& error) {
      throw named(error, sending_to(transfer));
    }
  }

  void release_sent() {
    std::erase_if(sending_, [this](const Sending& one) {
      const bool is_sent = std::ranges::all_of(one.works, &Work::done);
      if (is_sent) finish(one);
      return is_sent;
    });
  }
  // Waits until the message is sent, and gives its memory back.
  void finish(const Sending& one) {
    try {
      for (const Work& work : one.works) work.wait();
    } catch (const Error& error) {
      throw named(error, sending_to(one.transfer));
    }
    work_.sent(one.transfer);
  }

  Communicator& group_;
  const Placement placement_;
  StageWork& work_;
  const RunnerOptions options_;
  RankProgress progress_;
  std::uint64_t first_turn_ = 0;
  int live_ = 0, peak_live_ = 0;
  std::map<Transfer, Receiving> receiving_;
  std::deque<Sending> sending_;
  StepReport report_;
  const int exceptions_ = std::uncaught_exceptions();
};

Runner::Runner(Communicator& group, Placement placement, StageWork& work, RunnerOptions options)
    : state_(std::make_unique<State>(group, std::move(placement), work, options)) {}
Runner::~Runner() = default;

StepReport Runner::run(std::span<const Operation> operations, std::uint64_t first_turn,
                       std::optional<Operation> next) {
  return state_->run(operations, first_turn, next);
}
void Runner::expect(const Operation& operation) {
  state_->expect(operation);
}
void Runner::forget(const Operation& operation) {
  state_->forget(operation);
}
void Runner::send_unused(const Transfer& transfer) {
  state_->send_unused(transfer);
}
void Runner::drain() {
  state_->drain();
}

StepReport run(Communicator& group, const Order& order, StageWork& work, std::uint64_t step,
               const RunnerOptions& options) {
  const auto rank = static_cast<std::size_t>(group.rank());
  RunnerOptions chosen = options;
  chosen.split_backward = order.split_backward;
  if (chosen.ahead == 0 && rank < order.ranks.size())
    chosen.ahead = std::min(peak_live(order)[rank], kReceivesAhead);
  Runner runner(group, order.placement(), work, chosen);
  const auto turns = static_cast<std::uint64_t>(order.micro_batches);
  StepReport report = runner.run(order.ranks[rank], step * turns);
  runner.drain();
  return report;
}

void trace_operations(const StepReport& report, TraceLog& log) {
  if (!log.enabled()) return;
  for (const auto& [operation, begin, end] : report.operations) {
    log.record({TraceLane::stages,
                fmt::format("{} micro-batch {} on stage {}", letter_of(operation.kind),
                            operation.micro_batch, operation.stage),
                nanoseconds(begin), nanoseconds(end)});
  }
}

}  // namespace paceline::pipeline
