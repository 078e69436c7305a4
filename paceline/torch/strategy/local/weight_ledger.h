// The samples that each rank has trained on since the last exchange: the weights of an average of
// replicas.
//
// If the user says weights, each rank tells its own once a step, in a short message for which
// nobody waits before the exchange. One rank alone waits in each step: one without a batch, which
// has to know whether anybody has one.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "paceline/core/collective/collective.h"
#include "paceline/torch/gradient/gradient.h"
#include "paceline/torch/replica/replica.h"

namespace paceline::strategy {

// All ranks call the same methods in the same order, but for any_batch(). THREAD: one. THROWS
// Error, from every call: what ended the communication.
class WeightLedger {
 public:
  // `group` outlives this. `training`: ModelParts::training.
  WeightLedger(Communicator& group, std::uint64_t training)
      : group_(group), training_(training), samples_(static_cast<std::size_t>(group.size())) {}
  // Waits for what is under way: a group must not end before.
  ~WeightLedger();
  WeightLedger(const WeightLedger&) = delete;
  WeightLedger& operator=(const WeightLedger&) = delete;

  // Enters this rank's weight in a step, and adds up what has arrived. It does not wait.
  void tell(const replica::RankWeight& own);
  // Whether some rank had a batch in the last step that was told. Waits for all ranks to tell it.
  bool any_batch();

  // The samples of each rank since the last exchange. Waits for all ranks to tell them. THROWS
  // Error (mismatch): some ranks said their weights, and others did not.
  const std::vector<double>& samples();
  // This rank's factor in a mean that counts all ranks alike; 1 where no rank had a sample.
  double share();
  // Whether no rank had a sample since the last exchange.
  bool is_empty();
  // An exchange has been made.
  void restart();

  void restore(std::vector<double> samples) { samples_ = std::move(samples); }

 private:
  void settle();
  void settle_one();

  Communicator& group_;
  const std::uint64_t training_;
  std::deque<gradient::StepAgreement> told_;  // of steps that are not yet added up
  std::vector<double> samples_;
  bool last_had_batch_ = false;
};

}  // namespace paceline::strategy
