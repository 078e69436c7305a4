#include "paceline/core/collective/price/timetable.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "paceline/core/base/check.h"
#include "paceline/core/collective/program/cells.h"
#include "paceline/core/collective/program/compiled_program.h"
#include "paceline/core/collective/proof/matching.h"

namespace paceline::collective {
namespace {

using Message = Timetable::Message;
using Payer = Timetable::Payer;

class Writer {
 public:
  Writer(std::span<const Program> programs, bool with_payers)
      : programs_(programs),
        meeting_(meet(programs).value()),
        with_payers_(with_payers),
        received_(programs.size()),
        waves_(programs.size()) {}

  Timetable write() {
    table_.chunks = programs_[0].chunks;
    for (std::size_t rank = 0; rank < programs_.size(); ++rank) {
      const std::size_t rounds = programs_[rank].rounds.size();
      waves_[rank].resize(rounds + 1);
      table_.rounds.emplace_back(rounds);
      in_place_.emplace_back(programs_[rank], true);
      if (with_payers_)
        plans_.push_back(make_plan(programs_[rank], static_cast<int>(programs_.size())));
    }
    // When a round can end, all its partners' rounds have begun: their waves are known.
    for (const RoundAt& at : meeting_.ends) end(at);
    std::ranges::sort(table_.messages, {}, [](const Message& message) {
      return std::tuple(message.wave, message.step, message.from);
    });
    return std::move(table_);
  }

 private:
  const Round& steps(const RoundAt& at) const {
    return programs_[static_cast<std::size_t>(at.rank)].rounds[static_cast<std::size_t>(at.round)];
  }
  int& wave(const RoundAt& at) {
    return waves_[static_cast<std::size_t>(at.rank)][static_cast<std::size_t>(at.round)];
  }

  void end(const RoundAt& at) {
    int next = wave(at);
    round_.clear();
    for (int i = 0; i < static_cast<int>(steps(at).size()); ++i) {
      const Step& step = steps(at)[static_cast<std::size_t>(i)];
      if (!is_send(step) && !is_recv(step)) {
        note_local(at, step);
        continue;
      }
      const StepAt partner = meeting_.partner({at.rank, at.round, i});
      const int together = std::max(wave(at), wave({partner.rank, partner.round}));
      next = std::max(next, together + 1);
      if (is_send(step)) note_send({at.rank, at.round, i}, partner, together);
      else if (step.kind == Step::Kind::recv_reduce) work(at).reduced.push_back(step.target.chunk);
    }
    for (const Step& step : steps(at)) {
      if (is_recv(step))
        received_[static_cast<std::size_t>(at.rank)].emplace(step.target.space, step.target.chunk);
    }
    for (Message& message : round_) table_.messages.push_back(std::move(message));
    wave({at.rank, at.round + 1}) = next;
  }

  void note_local(const RoundAt& at, const Step& step) {
    if (step.kind == Step::Kind::reduce) return work(at).reduced.push_back(step.target.chunk);
    if (!in_place_[static_cast<std::size_t>(at.rank)].is_idle(step))
      work(at).copied.push_back(step.target.chunk);
  }

  void note_send(const StepAt& sending, const StepAt& receiving, int wave) {
    const auto same = [&](const Message& message) {
      return message.to == receiving.rank && message.wave == wave;
    };
    auto message = std::ranges::find_if(round_, same);
    if (message == round_.end()) {
      round_.push_back({sending.rank, receiving.rank, wave, sending.step});
      message = round_.end() - 1;
      ++work({sending.rank, sending.round}).messages;
      ++work({receiving.rank, receiving.round}).messages;
    }
    const Slot& source = step_at(programs_, sending).source;
    message->loads.push_back(
        {source.chunk, payer(sending, receiving),
         received_[static_cast<std::size_t>(sending.rank)].contains({source.space, source.chunk})});
  }

  Payer payer(const StepAt& sending, const StepAt& receiving) const {
    if (!with_payers_) return Payer::nobody;
    if (step_at(programs_, sending).kind == Step::Kind::store)
      return is_fused(sending) ? Payer::the_sum : Payer::sender;
    if (step_at(programs_, receiving).kind == Step::Kind::recv_reduce) return Payer::nobody;
    const ProgramPlan& plan = *plans_[static_cast<std::size_t>(receiving.rank)];
    const Action& action = plan.rounds[static_cast<std::size_t>(receiving.round)]
                                      [static_cast<std::size_t>(receiving.step)];
    return action.view_until >= 0 ? Payer::nobody : Payer::receiver;
  }

  bool is_fused(const StepAt& store) const {
    if (store.round == 0) return false;
    const ProgramPlan& plan = *plans_[static_cast<std::size_t>(store.rank)];
    return std::ranges::any_of(
        plan.rounds[static_cast<std::size_t>(store.round) - 1], [&](const Action& action) {
          return std::ranges::find(action.stores, store.step) != action.stores.end();
        });
  }

  Timetable::Work& work(const RoundAt& at) {
    return table_.rounds[static_cast<std::size_t>(at.rank)][static_cast<std::size_t>(at.round)];
  }

  std::span<const Program> programs_;
  const Rendezvous meeting_;
  const bool with_payers_;
  Timetable table_;
  std::vector<Cells> in_place_;                                  // by rank
  std::vector<std::set<std::pair<Slot::Space, int>>> received_;  // by rank, in rounds that ended
  std::vector<std::vector<int>> waves_;  // by rank and round: its messages are of no earlier wave
  std::vector<std::shared_ptr<const ProgramPlan>> plans_;
  std::vector<Message> round_;  // of the round that ends
};

}  // namespace

Timetable timetable_of(std::span<const Program> programs, bool with_payers) {
  return Writer(programs, with_payers).write();
}

Timetable timetable_of(const Algorithm& algorithm, const Shape& shape, bool with_payers) {
  std::vector<Program> programs;
  for (Shape one = shape; (one.rank = static_cast<int>(programs.size())) < shape.ranks;) {
    PACELINE_CHECK(algorithm.fits(one), "{} {} does not fit {} ranks", name_of(algorithm.operation),
                   algorithm.name, shape.ranks);
    programs.push_back(algorithm.build(one));
  }
  return timetable_of(programs, with_payers);
}

}  // namespace paceline::collective
