// Stands for a model's computation where it should compete with communication for the processors.
// It multiplies small matrices, as a model's layers do, over a working set that stays in a core's
// own cache.
#pragma once

#include <cstdint>
#include <vector>

namespace paceline::schedule {

// THREAD: one at a time.
class ComputeKernel {
 public:
  // REQUIRES: rounds_per_second > 0.
  explicit ComputeKernel(double rounds_per_second);
  // Measures the rounds that an idle processor does in a second. Other load on the machine matters
  // little, because the thread's own time counts, and the fastest of several tries. COST: 50 ms of
  // a processor.
  static ComputeKernel calibrated();

  double rounds_per_second() const { return rounds_per_second_; }
  // Does the rounds of `seconds`, however long they take. A fraction of a round is carried over, so
  // that many short calls are as much work as a long one.
  void work(double seconds);
  std::uint64_t rounds() const { return rounds_; }  // done so far
  // The sum of all products, which depends on all work done.
  double sum() const { return sum_; }

 private:
  void round();

  double rounds_per_second_;
  double seconds_ = 0;  // asked for so far
  std::uint64_t rounds_ = 0;
  std::vector<float> left_, right_;  // matrices, several of them
  double sum_ = 0;
};

}  // namespace paceline::schedule
