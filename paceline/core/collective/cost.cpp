#include "paceline/core/collective/cost.h"

#include <algorithm>
#include <queue>
#include <tuple>
#include <utility>

#include "paceline/core/base/check.h"
#include "paceline/core/collective/cells.h"
#include "paceline/core/collective/rendezvous.h"

namespace paceline::collective {
namespace {

// Time passes from message to message: always the one goes next that can start first.
class Clockwork {
 public:
  Clockwork(std::span<const Program> programs, const Rendezvous& meeting,
            const Partition& partition, std::size_t element_bytes, const topology::Prices& prices)
      : programs_(programs),
        meeting_(meeting),
        partition_(partition),
        element_bytes_(element_bytes),
        prices_(prices),
        posted_(meeting.numbers.count(), kNotPosted),
        states_(programs.size()) {}

  double run() {
    for (int rank = 0; rank < static_cast<int>(programs_.size()); ++rank) begin_rounds(rank);
    while (!waiting_.empty()) {
      Part part = waiting_.top();
      waiting_.pop();
      const double start = earliest_start(part.sending);
      if (start > part.start) {  // a port has been taken since it was queued
        part.start = start;
        waiting_.push(part);
      } else {
        move(part);
      }
    }
    double last = 0;
    for (const State& state : states_) last = std::max(last, state.round_ends);
    return last;
  }

 private:
  static constexpr double kNotPosted = -1;

  struct State {
    int round = -1;
    int outstanding = 0;           // messages of the round that have not moved
    std::vector<int> messages;     // by step of the round: the first of its message
    std::vector<double> start_up;  // by first step of a message: what it still pays
    double round_ends = 0;         // when the last message of the round so far is through
    double port_out = 0;           // when the port is free to send
    double port_in = 0;
  };

  // One step's part of a message. In order of start; of those that can start together, a rank's
  // first message goes first, and as a whole.
  struct Part {
    double start;
    StepAt sending;
    int message;
    bool operator<(const Part& other) const { return key() > other.key(); }
    std::tuple<double, int, int, int> key() const {
      return {start, message, sending.rank, sending.step};
    }
  };

  State& state(int rank) { return states_[static_cast<std::size_t>(rank)]; }
  const std::vector<Round>& rounds(int rank) const {
    return programs_[static_cast<std::size_t>(rank)].rounds;
  }
  double bytes(const Slot& slot) const {
    const Range& chunk = partition_.chunks[static_cast<std::size_t>(slot.chunk)];
    return static_cast<double>(chunk.count * element_bytes_);
  }

  // Posts the next round; rounds without messages take only the time of their sums, so that several
  // may pass.
  void begin_rounds(int rank) {
    State& own = state(rank);
    while (++own.round < static_cast<int>(rounds(rank).size())) {
      const Round& round = rounds(rank)[static_cast<std::size_t>(own.round)];
      own.outstanding = 0;
      own.messages = messages_of(round);
      own.start_up.assign(round.size(), prices_.alpha);
      for (int i = 0; i < static_cast<int>(round.size()); ++i) {
        const Step& step = round[static_cast<std::size_t>(i)];
        if (!is_send(step) && !is_recv(step)) continue;
        ++own.outstanding;
        post({rank, own.round, i}, is_send(step));
      }
      if (own.outstanding > 0) return;
      own.round_ends += seconds_of_sums(round);
    }
  }

  void post(const StepAt& at, bool sends) {
    posted_[meeting_.numbers.of(at)] = state(at.rank).round_ends;
    const StepAt& other = meeting_.partner(at);
    if (posted_[meeting_.numbers.of(other)] == kNotPosted) return;
    const StepAt& sending = sends ? at : other;
    waiting_.push({earliest_start(sending), sending, message_of(sending)});
  }

  double earliest_start(const StepAt& sending) {
    const StepAt& receiving = meeting_.partner(sending);
    return std::max({posted_[meeting_.numbers.of(sending)], posted_[meeting_.numbers.of(receiving)],
                     state(sending.rank).port_out, state(receiving.rank).port_in});
  }

  int message_of(const StepAt& sending) {
    return state(sending.rank).messages[static_cast<std::size_t>(sending.step)];
  }

  void move(const Part& part) {
    const StepAt sending = part.sending, receiving = meeting_.partner(sending);
    const double size = bytes(step_at(programs_, sending).source);
    // An empty chunk is not sent (specification A0 point 2), so it takes neither time nor ports.
    if (size == 0) {
      const double now =
          std::max(posted_[meeting_.numbers.of(sending)], posted_[meeting_.numbers.of(receiving)]);
      arrive(sending.rank, now);
      arrive(receiving.rank, now);
      return;
    }
    double& start_up = state(sending.rank).start_up[static_cast<std::size_t>(part.message)];
    const double end = part.start + std::exchange(start_up, 0) + size * prices_.beta;
    state(sending.rank).port_out = end;
    state(receiving.rank).port_in = end;
    arrive(sending.rank, end);
    arrive(receiving.rank, end);
  }

  void arrive(int rank, double now) {
    State& own = state(rank);
    own.round_ends = std::max(own.round_ends, now);
    if (--own.outstanding > 0) return;
    own.round_ends += seconds_of_sums(rounds(rank)[static_cast<std::size_t>(own.round)]);
    begin_rounds(rank);
  }

  double seconds_of_sums(const Round& round) const {
    double summed = 0;
    for (const Step& step : round) {
      const bool sums = step.kind == Step::Kind::recv_reduce || step.kind == Step::Kind::reduce;
      if (sums) summed += bytes(step.target);
    }
    return summed * prices_.gamma;
  }

  std::span<const Program> programs_;
  const Rendezvous& meeting_;
  const Partition& partition_;
  std::size_t element_bytes_;
  topology::Prices prices_;
  std::vector<double> posted_;  // by step number
  std::vector<State> states_;   // by rank
  std::priority_queue<Part> waiting_;
};

}  // namespace

double cost(const Algorithm& algorithm, const Shape& shape, const Partition& partition,
            std::size_t element_bytes, const topology::Prices& prices) {
  std::vector<Program> programs;
  for (Shape one = shape; (one.rank = static_cast<int>(programs.size())) < shape.ranks;) {
    PACELINE_CHECK(algorithm.fits(one), "{} {} does not fit {} ranks", name_of(algorithm.operation),
                   algorithm.name, shape.ranks);
    programs.push_back(algorithm.build(one));
    PACELINE_CHECK(partition.chunks.size() == static_cast<std::size_t>(programs.back().chunks),
                   "a partition of {} chunks for programs of {}", partition.chunks.size(),
                   programs.back().chunks);
  }
  const Rendezvous meeting = meet(programs).value();
  return Clockwork(programs, meeting, partition, element_bytes, prices).run();
}

}  // namespace paceline::collective
