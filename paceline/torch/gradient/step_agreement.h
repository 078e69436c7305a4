// Facts that ranks tell each other in a step beside gradients: when it begins their weights, and
// whether the program wrote into their parameters; when it ends, which parameters they used.
//
// Weights are known before a gradient is scaled, so gradients travel with an agreed scale, and the
// state that a codec keeps from step to step has one unit. Both are short all_reduces on the
// training's own group, in the order of the steps: so a rank that does something else there is
// named. Each carries the number of its training, because a group may have several: a rank that is
// in a step of another one is named too. The rates of the optimizers are compared beside.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "paceline/core/collective/group/communicator.h"
#include "paceline/torch/replica/synchrony.h"
#include "paceline/torch/replica/watch/wait_watch.h"

namespace paceline::gradient {

// The weights of all ranks in a step.
struct StepWeights {
  std::vector<double> of_ranks;
  double total = 0;
  int root = -1;            // the lowest rank whose weight is not 0; -1: there is none
  int shadows = 0;          // ranks of weight 0
  bool has_writes = false;  // the program wrote into the parameters of some rank

  // The factor of this rank's gradients in a mean that counts all ranks alike: 1 if all weigh the
  // same. REQUIRES: total > 0.
  double share(int rank) const {
    return of_ranks[static_cast<std::size_t>(rank)] * static_cast<double>(of_ranks.size()) / total;
  }
};

// THREAD: one. THROWS Error, from every call: what ended the communication.
class StepAgreement {
 public:
  // `group` outlives this. Of one rank it sends nothing. `training`: ModelParts::training.
  StepAgreement(Communicator& group, std::uint64_t training) : group_(group), training_(training) {}
  ~StepAgreement();
  StepAgreement(const StepAgreement&) = delete;
  StepAgreement& operator=(const StepAgreement&) = delete;

  // From here on calls are made on this lane. `where` tells what this rank did last, for texts.
  void watch(const replica::WatchedLane& lane, std::function<std::string()> where) {
    lane_ = lane;
    where_ = std::move(where);
  }

  // Tells this rank's weight, once a step, and whether the program wrote into its parameters since
  // the last one. It does not wait.
  void tell_weight(const replica::RankWeight& own, bool has_written = false);
  bool has_told_weight() const { return has_told_weight_; }
  const replica::RankWeight& told() const { return own_; }  // REQUIRES: it has
  // Whether all ranks have told theirs.
  bool knows_weights() const { return has_told_weight_ && told_weights_.work.done(); }
  // Waits for them. THROWS Error (mismatch): some ranks said their weight, and others did not; a
  // rank began a step of another training.
  const StepWeights& weights();

  // Sets what used_by_any() compares: a fingerprint of what must be the same on all ranks; 0, which
  // holds again after each step: this rank does not know.
  void compare(std::uint64_t fingerprint) { compared_ = fingerprint; }

  // Tells that this rank is about to read parameters that ranks must gather together, outside of
  // training, the first of them in this unit. The others must tell the same: ranks that do
  // something else on the group are named. It does not wait; wait_for() does.
  replica::WatchedLane::Call tell_reading(std::size_t unit);
  void wait_for(const replica::WatchedLane::Call& told);

  // Tells which parameters this rank used, and waits until it is known which of them some rank did.
  // All ranks have as many. THROWS Error (mismatch): a rank ends a step of another training.
  std::vector<bool> used_by_any(const std::vector<bool>& used);
  // Whether fingerprints differed, among the ranks that knew theirs. The same on all ranks.
  bool has_difference() const { return has_difference_; }

  // The step is over.
  void end();

 private:
  Communicator& group_;
  const std::uint64_t training_;
  replica::WatchedLane lane_;
  std::function<std::string()> where_ = [] { return std::string(); };
  replica::RankWeight own_;
  bool has_told_weight_ = false;
  // Four for each rank: its weight, 1 if that was said, 1 if the program wrote, and the training.
  std::vector<double> buffer_;
  replica::WatchedLane::Call told_weights_;
  std::optional<StepWeights> weights_;
  std::uint64_t compared_ = 0;
  bool has_difference_ = false;
};

}  // namespace paceline::gradient
