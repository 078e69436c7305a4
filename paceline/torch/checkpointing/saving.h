// Saves: begun by all ranks at the same step, written behind the training's back, committed by rank
// 0 (core/checkpoint/save_agreement.h).
#pragma once

#include <cstdint>
#include <functional>
#include <future>
#include <set>
#include <string>
#include <vector>

#include "paceline/core/checkpoint/checkpoint.h"
#include "paceline/core/collective/collective.h"
#include "paceline/torch/checkpointing/own_share.h"

namespace paceline::checkpointing {

// Every rank calls the same methods in the same order. THREAD: one.
class Saving {
 public:
  // The values that manifests of this run have in common, and who hears of commits.
  struct Run {
    std::string job;
    std::uint64_t generation = 1;
    std::function<void(std::uint64_t step)> on_committed;  // on rank 0
    std::function<void(const Work&)> wait = [](const Work& round) { round.wait(); };
  };
  // They outlive it.
  Saving(Communicator& group, Disk& disk, checkpoint::CheckpointDirectory& directory, Run run,
         checkpoint::Keep keep);

  // This run has read all of the checkpoint of that step: older ones may go.
  void is_verified(std::uint64_t step) { verified_.insert(step); }

  // A save, or the end of the run, was asked for on this rank.
  void ask(bool stop) { agreement_.ask(stop); }

  // Reads the round of the last step, if one is under way, and begins the one of this step. Nobody
  // waits for a slower rank, unless that has not ended its last step.
  void read_round();
  void begin_round();
  // Whether a rank has asked for it, as all heard in the same round; a save is told once.
  bool take_asked_save() { return std::exchange(save_asked_, false); }
  bool is_stop_asked() const { return stop_asked_; }

  // Copies the tensors and begins to write this rank's share. A failure is told on stderr, and the
  // run goes on. REQUIRES: is_idle(). THROWS Error: mismatch, the ranks' tensors differ.
  void begin(std::uint64_t step, const std::vector<NamedState>& states);
  bool is_idle() const { return agreement_.is_idle(); }
  // Waits until no save is under way. True: the last one was committed.
  bool wait();

 private:
  void require_same_on_all(const std::vector<NamedState>& states, std::uint64_t step);
  bool make_place(std::uint64_t step);
  void look_at_own_work();
  void await_own_work(Deadline deadline);
  void share_ended(Result<std::vector<checkpoint::StoredFile>> result);
  void hear(const checkpoint::SaveAgreement::News& all);
  void close(bool some_share_failed);
  Result<> commit(const std::vector<std::string>& shares);
  void tell_failure(const std::string& why) const;

  Communicator& group_;
  checkpoint::CheckpointDirectory& directory_;
  const Run run_;
  const checkpoint::Keep keep_;
  std::set<std::uint64_t> verified_;  // read or written by this run
  checkpoint::SaveAgreement agreement_;
  ShareWriter writer_;
  std::uint64_t step_ = 0;         // of the last save
  std::string place_;              // its directory until it is committed
  checkpoint::Manifest own_;       // of this rank's share
  std::future<Result<>> closing_;  // rank 0's
  bool was_committed_ = false;
  bool save_asked_ = false, stop_asked_ = false;

  checkpoint::SaveAgreement::News round_ = {};  // told, and then of all ranks
  Work round_work_;
  bool round_is_open_ = false;
};

}  // namespace paceline::checkpointing
