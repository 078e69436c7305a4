#include "paceline/core/coordination/partial_barrier.h"

#include <algorithm>

namespace paceline::coordination {

void PartialBarrier::join(int worker) {
  workers_.try_emplace(worker);
}

void PartialBarrier::leave(int worker) {
  workers_.erase(worker);
}

void PartialBarrier::arrive(int worker) {
  workers_.at(worker).has_arrived = true;
}

void PartialBarrier::rest(int worker) {
  workers_.at(worker).rests = true;
}

void PartialBarrier::wake() {
  for (auto& [number, worker] : workers_) worker = {};
}

// One more time without it would be too many.
bool PartialBarrier::is_due(const Worker& worker) const {
  return !worker.has_arrived && !worker.rests && worker.age >= pace_.delay - 1;
}

bool PartialBarrier::are_enough() const {
  int arrived = 0, able = 0;
  for (const auto& [number, worker] : workers_) {
    arrived += worker.has_arrived ? 1 : 0;
    able += worker.has_arrived || !worker.rests ? 1 : 0;
  }
  return arrived >= std::max(1, std::min(pace_.barrier, able));
}

bool PartialBarrier::can_pass() const {
  return are_enough() &&
         std::ranges::none_of(workers_, [&](const auto& one) { return is_due(one.second); });
}

std::vector<int> PartialBarrier::arrived() const {
  std::vector<int> arrived;
  for (const auto& [number, worker] : workers_)
    if (worker.has_arrived) arrived.push_back(number);
  return arrived;
}

// Those without whom it cannot be passed come first: there may be enough without others.
std::vector<int> PartialBarrier::awaited() const {
  std::vector<int> due, missing;
  for (const auto& [number, worker] : workers_) {
    if (worker.has_arrived || worker.rests) continue;
    missing.push_back(number);
    if (is_due(worker)) due.push_back(number);
  }
  return are_enough() || !due.empty() ? due : missing;
}

std::vector<int> PartialBarrier::pass() {
  std::vector<int> passing = arrived();
  pass(passing);
  return passing;
}

void PartialBarrier::pass(const std::vector<int>& those) {
  for (auto& [number, worker] : workers_) ++worker.age;
  for (const int number : those) {
    const auto found = workers_.find(number);
    if (found != workers_.end() && found->second.has_arrived)
      found->second = {.rests = found->second.rests};
  }
}

}  // namespace paceline::coordination
