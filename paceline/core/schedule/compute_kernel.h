// Work that takes a processor: what stands for a model's computation where that shall compete with
// communication for the machine. Products of small matrices, as a model's layers have, over a
// working set that stays in a core's own cache.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace paceline::schedule {

// THREAD: one at a time.
class ComputeKernel {
 public:
  // The work of a second is so many rounds. REQUIRES: more than 0.
  explicit ComputeKernel(double rounds_per_second);
  // As many as an idle processor does. COST: 50 ms of a processor. Others on the machine change it
  // little: the thread's own time counts, and of several tries the fastest.
  static ComputeKernel calibrated();

  double rounds_per_second() const { return rounds_per_second_; }
  // Does the rounds of so many seconds, however long they take; part of a round is left for later
  // calls, so that many short ones are as much work as a long one.
  void work(double seconds);
  std::uint64_t rounds() const { return rounds_; }  // so far
  // The sum of all products: it depends on all that was done.
  double sum() const { return sum_; }

 private:
  void round();

  double rounds_per_second_;
  double seconds_ = 0;  // asked for, so far
  std::uint64_t rounds_ = 0;
  std::vector<float> left_, right_;  // matrices, several of them
  double sum_ = 0;
};

}  // namespace paceline::schedule
