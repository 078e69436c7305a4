// Lanes: what waits to be sent, a lane for each group. Lanes take turns, so that a short operation
// of one group never waits behind all of a long one of another.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <utility>

namespace paceline::transport {

template <typename T>
class Lanes {
 public:
  bool empty() const { return lanes_.empty(); }
  std::size_t size() const {
    std::size_t all = 0;
    for (const auto& [group, lane] : lanes_) all += lane.size();
    return all;
  }
  template <typename Visit>
  void for_each(const Visit& visit) const {
    for (const auto& [group, lane] : lanes_)
      for (const T& one : lane) visit(one);
  }
  void clear() { lanes_.clear(); }

  T& push(std::uint32_t group, T value) { return lanes_[group].emplace_back(std::move(value)); }
  // The first of the lane whose turn it is. REQUIRES: not empty.
  T take() {
    auto lane = lanes_.upper_bound(last_);
    if (lane == lanes_.end()) lane = lanes_.begin();
    last_ = lane->first;
    T value = std::move(lane->second.front());
    lane->second.pop_front();
    if (lane->second.empty()) lanes_.erase(lane);
    return value;
  }

 private:
  std::map<std::uint32_t, std::deque<T>> lanes_;
  std::uint32_t last_ = 0;
};

}  // namespace paceline::transport
