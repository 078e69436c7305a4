#include "paceline/core/coordination/partial_barrier.h"

#include <algorithm>
#include <utility>

namespace paceline::coordination {

void PartialBarrier::join(int worker) {
  workers_.try_emplace(worker);
}

void PartialBarrier::arrive(int worker) {
  workers_.at(worker).has_arrived = true;
}

bool PartialBarrier::can_pass() const {
  int arrived = 0;
  for (const auto& [number, worker] : workers_) {
    if (worker.has_arrived) ++arrived;
    else if (worker.age >= pace_.delay - 1) return false;
  }
  return arrived >= std::min(pace_.barrier, static_cast<int>(workers_.size()));
}

std::vector<int> PartialBarrier::pass() {
  std::vector<int> passed;
  for (auto& [number, worker] : workers_) {
    worker.age = worker.has_arrived ? 0 : worker.age + 1;
    if (std::exchange(worker.has_arrived, false)) passed.push_back(number);
  }
  return passed;
}

}  // namespace paceline::coordination
