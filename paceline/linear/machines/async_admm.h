// AsyncAdmm: the machine of asynchronous consensus ADMM on a rank, each of which is a worker; rank
// 0 is the master too (admm_master.h).
//
// A round is a number of updates of the common weights z. In it a worker that has a z to go on with
// solves its problem and contributes x + u, as often as its speed allows; after the last update the
// master ends the round on all ranks, with the z of that update. A worker that is still solving
// contributes when it is ready, to the next round. A rank may begin a round that has already ended:
// the delay bounds how many rounds it can lag behind. Messages are whole vectors (8 bytes a
// weight): two for each solution, and one for each rank and round. The network must neither lose
// nor double messages.
//
// If a rank is lost in a round, the master ends the run on all ranks, and nobody waits any more.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "paceline/core/coordination/missing_ranks.h"
#include "paceline/core/machine/machine.h"
#include "paceline/linear/machines/admm_master.h"

namespace paceline::linear {

// THREAD: the on_... methods on the driver, the others on any; a mutex guards the state.
class AsyncAdmm final : public machine::Machine {
 public:
  // All ranks give the same values. `updates`: of a round. REQUIRES: updates >= 1.
  AsyncAdmm(int rank, int ranks, std::size_t width, const AdmmPace& pace, std::int64_t updates,
            AdmmMaster::Consensus consensus);

  // --- the worker ---

  // The message by which the next round begins: tell it to the run, on each rank.
  static machine::Message begin();
  // take() is decided: there is a z to go on with, the round has ended, or the run has.
  bool is_settled() const;
  // The z to go on with; nothing at the end of the round. REQUIRES: is_settled() and !lost().
  std::optional<std::vector<double>> take();
  // The message that carries x + u after each z that was taken: tell it to the run.
  static machine::Message contribution(std::span<const double> x_plus_u);

  std::vector<double> common() const;  // z at the end of the last round
  std::optional<int> lost() const;     // the rank for whose loss the run has ended
  // This rank waits long. Tell it to the run: rank 0 answers for whom, see missing_ranks().
  machine::Message ask_who_is_missing();
  coordination::MissingRanks missing_ranks() const;
  // On rank 0: a copy of its state; nothing elsewhere.
  std::optional<AdmmMaster> master() const;

  // --- machine ---

  // kBegin and kContribute come from the rank itself. kCommon carries a z to go on with, kEnd the
  // last z of a round, kEndAndCommon both, with the round in `index`; kLost the rank that is lost,
  // in `index`. kStill answers kWho, which a rank tells itself first.
  enum Kind : std::uint32_t {
    kBegin = 1,
    kContribute,
    kArrive,
    kCommon,
    kEnd,
    kEndAndCommon,
    kLost,
    kWho,
    kStill
  };
  machine::Actions on_message(int from, const machine::Message& message,
                              machine::Time now) override;
  machine::Actions on_timer(std::uint32_t, machine::Time) override { return {}; }
  machine::Actions on_lost(int peer, machine::Time now) override;

 private:
  machine::Actions arrive(int from, const machine::Message& message);
  machine::Actions update_while_possible();
  machine::Actions end_round(std::span<const int> arrived);
  machine::Actions give_up(int lost);
  machine::Actions say_who_is_missing(int to) const;
  bool has_end() const { return ends_.contains(rounds_taken_); }

  const int rank_, ranks_;
  const std::int64_t updates_;

  mutable std::mutex mutex_;  // guards all that follows
  // The worker.
  std::optional<std::vector<double>> next_;  // the z to go on with
  std::vector<double> common_;
  std::map<std::uint32_t, std::vector<double>> ends_;  // last z of rounds that it has not taken yet
  std::uint32_t rounds_taken_ = 0;
  std::optional<int> lost_;
  coordination::MissingRanks missing_ranks_;
  // The master.
  std::optional<AdmmMaster> master_;
  std::uint32_t rounds_begun_ = 0;
  std::int64_t updates_left_ = 0;  // of the round
  std::optional<int> missing_;     // a rank that has ended
};

}  // namespace paceline::linear
