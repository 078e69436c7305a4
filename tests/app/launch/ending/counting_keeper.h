// A keeper for tests of those who ask one: chain c of `servers` chains lies on the servers c, c + 1,
// ... c + replicas - 1, modulo their number. A server that comes takes the place of the one that
// died first of those without a successor, and is ready when it has reported anything.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <utility>

#include "paceline/app/launch/ending/server_keeper.h"
#include "paceline/core/transport/frame/wire.h"

namespace paceline::launch {

using Chains = std::vector<std::size_t>;

class CountingKeeper final : public ServerKeeper {
 public:
  CountingKeeper(int ranks, int servers, int replicas) : ready_(static_cast<std::size_t>(servers)) {
    for (int chain = 0; chain < servers; ++chain)
      for (int place = 0; place < replicas; ++place) {
        const int member = ranks + (chain + place) % servers;
        ready_[static_cast<std::size_t>(chain)].push_back(member);
        places_[member].push_back(static_cast<std::size_t>(chain));
      }
  }

  bool may_lose(int member) const override {
    return std::ranges::all_of(ready_, [member](const std::vector<int>& chain) {
      return std::ranges::any_of(chain, [member](int one) { return one != member; });
    });
  }

  void died(int member, bool) override {
    auto place = places_.extract(member);
    if (place.empty()) return;
    for (std::vector<int>& chain : ready_) changed_ |= std::erase(chain, member) > 0;
    vacant_.push_back(std::move(place.mapped()));
  }

  void came(int member) override {
    if (vacant_.empty() || places_.contains(member)) return;
    places_.emplace(member, std::move(vacant_.front()));
    vacant_.pop_front();
  }

  void reported(int member, Bytes) override {
    const auto place = places_.find(member);
    if (place == places_.end() || is_ready(member)) return;
    for (const std::size_t chain : place->second) ready_[chain].push_back(member);
    changed_ = true;
  }

  bool is_ready(int member) const override {
    return std::ranges::any_of(ready_, [member](const std::vector<int>& chain) {
      return std::ranges::count(chain, member) > 0;
    });
  }

  std::optional<std::vector<std::byte>> take_map() override {
    if (!std::exchange(changed_, false)) return std::nullopt;
    transport::WireWriter map;
    for (const std::vector<int>& chain : ready_) {
      map.integer(static_cast<std::uint32_t>(chain.size()));
      for (const int member : chain) map.integer(static_cast<std::int32_t>(member));
    }
    return map.bytes();
  }

 private:
  std::vector<std::vector<int>> ready_;  // by chain
  std::map<int, Chains> places_;         // of those that live
  std::deque<Chains> vacant_;            // of those that have died, without a successor
  bool changed_ = false;
};

inline std::unique_ptr<ServerKeeper> counting_keeper(int ranks, int servers, int replicas) {
  return std::make_unique<CountingKeeper>(ranks, servers, replicas);
}

}  // namespace paceline::launch
