#include "paceline/linear/threads/conflicts.h"

#include <algorithm>
#include <functional>
#include <numeric>

namespace paceline::linear {

// Halves the path to the root on the way.
std::size_t ConflictGraph::root_of(std::size_t place) {
  while (parents_[place] != place) place = parents_[place] = parents_[parents_[place]];
  return place;
}

std::vector<Component> ConflictGraph::components(std::span<const std::size_t> batch) {
  parents_.resize(batch.size());
  std::iota(parents_.begin(), parents_.end(), std::size_t{0});
  for (std::size_t place = 0; place < batch.size(); ++place) {
    for (const std::uint32_t feature : rows_.row(batch[place]).indices) {
      std::size_t& owner = owners_[feature];
      if (owner == kNone) {
        owner = place;
        continue;
      }
      // The earlier place becomes the root, so a component's root is its first sample.
      const std::size_t one = root_of(owner), other = root_of(place);
      parents_[std::max(one, other)] = std::min(one, other);
    }
  }

  std::vector<Component> found;
  std::vector<std::size_t> component_of(batch.size());  // by root
  for (std::size_t place = 0; place < batch.size(); ++place) {
    const std::size_t root = root_of(place);
    if (root == place) {
      component_of[root] = found.size();
      found.emplace_back();
    }
    const SparseVector row = rows_.row(batch[place]);
    found[component_of[root]].samples.push_back(batch[place]);
    found[component_of[root]].work += row.entries();
    for (const std::uint32_t feature : row.indices) owners_[feature] = kNone;  // for the next batch
  }
  return found;
}

std::vector<std::vector<std::size_t>> deal_out(std::span<const Component> components, int threads) {
  std::vector<std::size_t> order(components.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater(),
                           [&](std::size_t i) { return components[i].work; });
  std::vector<std::vector<std::size_t>> dealt(static_cast<std::size_t>(threads));
  std::vector<std::size_t> work(dealt.size());
  for (const std::size_t i : order) {
    const auto least = static_cast<std::size_t>(std::ranges::min_element(work) - work.begin());
    dealt[least].push_back(i);
    work[least] += components[i].work;
  }
  return dealt;
}

}  // namespace paceline::linear
