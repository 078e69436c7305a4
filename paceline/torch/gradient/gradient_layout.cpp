#include "paceline/torch/gradient/gradient_layout.h"

#include <algorithm>

namespace paceline::gradient {

std::vector<int> members_of(const std::vector<schedule::Bucket>& groups) {
  std::vector<int> all;
  for (const schedule::Bucket& group : groups)
    all.insert(all.end(), group.gradients.begin(), group.gradients.end());
  return all;
}

// The path is told in each step where the gradients of each group lie.
std::unique_ptr<schedule::GradientPath> GradientLayout::path(Communicator& group,
                                                             Job* with_servers) const {
  std::vector<Buffer> nowhere_yet;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const auto bytes = static_cast<std::size_t>(schedule::bytes_of(model, plan.groups[g]));
    nowhere_yet.push_back({nullptr, bytes / size_of(groups[g].dtype), groups[g].dtype});
  }
  const int lanes = is_in_order ? 1 : schedule::kLanes;
  return std::make_unique<schedule::GradientPath>(
      with_servers == nullptr ? schedule::transport_in_lanes(group, lanes)
                              : schedule::transport_on_servers(*with_servers, group, lanes),
      model, plan, std::move(nowhere_yet));
}

bool GradientLayout::compresses() const {
  return std::ranges::any_of(plan.groups, [](const schedule::MessageGroup& group) {
    return group.codec != schedule::kUncompressed;
  });
}

std::vector<std::uint32_t> GradientLayout::parameters() const {
  const std::vector<int> all = members_of(groups);
  return {all.begin(), all.end()};
}

std::size_t GradientLayout::started(const std::vector<bool>& is_sent) const {
  std::vector<bool> counted(is_sent.size());
  std::size_t started = 0;
  const auto is_started = [&](std::size_t group) {
    if (is_sent[group] && !counted[group]) ++started;
    counted[group] = true;
    return is_sent[group];
  };
  if (plan.order.empty()) {
    while (started < is_sent.size() && is_started(started)) continue;
    return started;
  }
  for (const int group : plan.order)
    if (!is_started(static_cast<std::size_t>(group))) break;
  return started;
}

int GradientLayout::late_in(const std::vector<schedule::Bucket>& groups,
                            std::span<const int> arrived) {
  const std::vector<int> order = members_of(groups);
  if (order.empty()) return 0;
  std::vector<int> place(order.size(), 0);
  for (std::size_t at = 0; at < order.size(); ++at)
    place[static_cast<std::size_t>(order[at])] = static_cast<int>(at);
  int late = 0, furthest = -1;
  for (int index : arrived) {
    late += place[static_cast<std::size_t>(index)] < furthest;
    furthest = std::max(furthest, place[static_cast<std::size_t>(index)]);
  }
  return late;
}

}  // namespace paceline::gradient
