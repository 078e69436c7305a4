#include "paceline/core/collective/proof/matching.h"

#include <fmt/format.h>

#include "paceline/core/collective/program/cells.h"

namespace paceline::collective {

StepNumbers::StepNumbers(std::span<const Program> programs) {
  for (const Program& program : programs) {
    std::vector<std::size_t>& first = first_of_round_.emplace_back();
    for (const Round& round : program.rounds) {
      first.push_back(count_);
      count_ += round.size();
    }
  }
}

std::size_t StepNumbers::of(const StepAt& at) const {
  const auto& rounds = first_of_round_[static_cast<std::size_t>(at.rank)];
  return rounds[static_cast<std::size_t>(at.round)] + static_cast<std::size_t>(at.step);
}

const Step& step_at(std::span<const Program> programs, const StepAt& at) {
  const Program& program = programs[static_cast<std::size_t>(at.rank)];
  return program.rounds[static_cast<std::size_t>(at.round)][static_cast<std::size_t>(at.step)];
}

std::string describe(std::span<const Program> programs, const StepAt& at) {
  return fmt::format("rank {}, round {}, step {} ({})", at.rank, at.round, at.step,
                     to_string(step_at(programs, at)));
}

Failure fault_at(std::span<const Program> programs, const StepAt& at, std::string_view what) {
  return {Fault::misuse, fmt::format("{}: {}", describe(programs, at), what), {at.rank}};
}

namespace {

// Runs the rounds of all ranks as far as they go.
class Meeting {
 public:
  explicit Meeting(std::span<const Program> programs)
      : programs_(programs),
        found_{StepNumbers(programs), {}, {}},
        states_(programs.size()),
        lanes_(programs.size() * programs.size()) {
    found_.partners.resize(found_.numbers.count());
  }

  Result<Rendezvous> run() {
    for (std::size_t rank = 0; rank < programs_.size(); ++rank)
      ready_.push_back(static_cast<int>(rank));
    while (!ready_.empty()) {
      const int rank = ready_.back();
      ready_.pop_back();
      begin_next_round(rank);
    }
    for (std::size_t rank = 0; rank < programs_.size(); ++rank) {
      if (!has_ended(static_cast<int>(rank))) return deadlock();
    }
    return std::move(found_);
  }

 private:
  struct State {
    int round = -1;       // the one that is posted
    int outstanding = 0;  // of its messages
  };
  // The steps posted from one rank to another that have not met their counterparts: either sends or
  // receives, never both.
  struct Lane {
    std::vector<StepAt> waiting;
    std::size_t first = 0;
    bool sends_wait = false;
  };

  State& state(int rank) { return states_[static_cast<std::size_t>(rank)]; }
  const Program& program(int rank) const { return programs_[static_cast<std::size_t>(rank)]; }
  bool has_ended(int rank) {
    return static_cast<std::size_t>(state(rank).round) == program(rank).rounds.size();
  }
  Lane& lane(const StepAt& at, const Step& step) {
    const int from = is_send(step) ? at.rank : step.peer, to = is_send(step) ? step.peer : at.rank;
    return lanes_[static_cast<std::size_t>(from) * programs_.size() + static_cast<std::size_t>(to)];
  }

  void begin_next_round(int rank) {
    const int round = ++state(rank).round;
    if (has_ended(rank)) return;
    const Round& steps = program(rank).rounds[static_cast<std::size_t>(round)];
    // One more than there are, so that the round cannot end while it is being posted.
    state(rank).outstanding = 1;
    for (int i = 0; i < static_cast<int>(steps.size()); ++i) {
      const Step& step = steps[static_cast<std::size_t>(i)];
      if (!is_send(step) && !is_recv(step)) continue;
      ++state(rank).outstanding;
      post({rank, round, i}, step);
    }
    message_moved(rank);
  }

  void post(const StepAt& at, const Step& step) {
    Lane& there = lane(at, step);
    if (there.first == there.waiting.size() || there.sends_wait == is_send(step)) {
      there.sends_wait = is_send(step);
      there.waiting.push_back(at);
      return;
    }
    const StepAt other = there.waiting[there.first++];
    found_.partners[found_.numbers.of(at)] = other;
    found_.partners[found_.numbers.of(other)] = at;
    message_moved(at.rank);
    message_moved(other.rank);
  }

  void message_moved(int rank) {
    if (--state(rank).outstanding > 0) return;
    found_.ends.push_back({rank, state(rank).round});
    ready_.push_back(rank);
  }

  Failure deadlock() {
    constexpr std::size_t kToldWaits = 8;
    Failure failure{Fault::misuse, "nothing can move any more:", {}};
    std::size_t told = 0;
    for (int rank = 0; rank < static_cast<int>(programs_.size()); ++rank) {
      if (has_ended(rank)) continue;
      failure.ranks.push_back(rank);
      if (told++ < kToldWaits) failure.what += fmt::format(" {};", wait_of(rank));
    }
    failure.what.back() = '.';
    return failure;
  }

  // The first message of the rank's round that has not met its counterpart, and where its peer is.
  std::string wait_of(int rank) {
    const Round& steps = program(rank).rounds[static_cast<std::size_t>(state(rank).round)];
    for (int i = 0; i < static_cast<int>(steps.size()); ++i) {
      const StepAt at{rank, state(rank).round, i};
      const Step& step = steps[static_cast<std::size_t>(i)];
      if ((!is_send(step) && !is_recv(step)) || found_.partner(at).rank >= 0) continue;
      return fmt::format("{} waits for rank {}, which {}", describe(programs_, at), step.peer,
                         has_ended(step.peer)
                             ? "has ended"
                             : fmt::format("is in round {}", state(step.peer).round));
    }
    return fmt::format("rank {} waits",
                       rank);  // not reached: a round without open messages has ended
  }

  std::span<const Program> programs_;
  Rendezvous found_;
  std::vector<State> states_;  // by rank
  std::vector<Lane> lanes_;    // by from * ranks + to
  std::vector<int> ready_;     // ranks whose next round can begin
};

}  // namespace

Result<Rendezvous> meet(std::span<const Program> programs) {
  return Meeting(programs).run();
}

}  // namespace paceline::collective
