// Are replicas equal that should be? It compares them now and then, and at the end of a training.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "paceline/core/collective/group/communicator.h"
#include "paceline/torch/replica/data_parallel_options.h"
#include "paceline/torch/replica/equal/told_replicas.h"
#include "paceline/torch/replica/parts/model_parts.h"
#include "paceline/torch/replica/synchrony.h"

namespace paceline::replica {

// THREAD: one. `step` is the present one's number in the training.
class EqualityWatch {
 public:
  // `parts` outlive this. `every`: DataParallelOptions::check_replicas_every.
  EqualityWatch(const ModelParts& parts, int every) : parts_(parts), every_(every) {}

  // Goes on among these ranks; null: there is one.
  void bind(Communicator* ranks);

  // The states of the optimizers may not be equal: the next check is due.
  void expect_difference(bool is_expected) { is_due_ = is_expected; }
  // Collective: compares the replicas if a check is due, as the last optimizer step left them.
  // THROWS Error (mismatch), from this and compare(): they differ; the synchrony fails.
  void check(Synchrony& synchrony, std::int64_t step);
  void compare(Synchrony& synchrony, std::int64_t step, bool is_due = false);
  // Compares with ranks that call it together, if others may not have done so for some steps; a
  // rank that calls it alone waits a moment. THROWS as compare() does.
  void compare_with_others(Synchrony& synchrony, std::int64_t step);

  // The step has left the parameters like this.
  void see_parameters();
  // Before the training ends: tells the user if replicas differ, unless the program has changed its
  // model since.
  void compare_at_the_end(const Synchrony& synchrony, std::int64_t step);

 private:
  bool may_compare(const Synchrony& synchrony, std::int64_t step) const;
  std::optional<Failure> compared(std::int64_t step);
  bool are_as_seen() const;

  const ModelParts& parts_;
  const int every_;
  Communicator* ranks_ = nullptr;
  std::unique_ptr<ToldReplicas> told_;                       // none: one rank, or no checks
  std::vector<std::pair<const void*, std::uint32_t>> seen_;  // parameters after the last step
  bool is_due_ = false;
};

// A training begins as the same one on all ranks. Makes all replicas equal to the root's, after a
// check that they can be. Collective.
void equalise(const ModelParts& parts, Communicator& group, int root,
              const DataParallelOptions& options);

// A number of its own for each training of the group. Collective.
std::uint64_t agreed_training(Communicator& group);

}  // namespace paceline::replica
