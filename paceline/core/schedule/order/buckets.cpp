#include "paceline/core/schedule/order/buckets.h"

#include <algorithm>
#include <map>
#include <utility>

#include "paceline/core/base/check.h"

namespace paceline::schedule {

std::vector<int> reverse_registration_order(int count) {
  std::vector<int> order;
  for (int i = count - 1; i >= 0; --i) order.push_back(i);
  return order;
}

std::vector<int> completed_order(std::span<const int> observed, int count) {
  std::vector<bool> seen(static_cast<std::size_t>(count), false);
  std::vector<int> order;
  for (int index : observed) {
    PACELINE_CHECK(index >= 0 && index < count, "gradient {} does not exist: there are {}", index,
                   count);
    PACELINE_CHECK(!seen[static_cast<std::size_t>(index)],
                   "gradient {} stands twice in an observed order", index);
    seen[static_cast<std::size_t>(index)] = true;
    order.push_back(index);
  }
  for (int index : reverse_registration_order(count)) {
    if (!seen[static_cast<std::size_t>(index)]) order.push_back(index);
  }
  return order;
}

std::vector<Bucket> plan_buckets(std::span<const Gradient> gradients, std::span<const int> order,
                                 const BucketCaps& caps) {
  const int count = static_cast<int>(gradients.size());
  PACELINE_CHECK(order.size() == gradients.size(),
                 "an order of {} gradients cannot be planned with {} places", gradients.size(),
                 order.size());
  completed_order(order, count);  // throws unless it is a permutation

  struct Open {
    Bucket bucket;
    std::size_t cap = 0;
    std::size_t last_place = 0;  // place of its last gradient in `order`
  };
  std::map<std::pair<Dtype, int>, Open> open;
  std::vector<Open> closed;
  bool first = true;
  for (std::size_t place = 0; place < order.size(); ++place) {
    const Gradient& gradient = gradients[static_cast<std::size_t>(order[place])];
    Open& current = open[{gradient.dtype, gradient.device}];
    const bool would_exceed =
        gradient.bytes > current.cap || current.bucket.bytes > current.cap - gradient.bytes;
    if (!current.bucket.gradients.empty() && would_exceed)
      closed.push_back(std::exchange(current, {}));
    if (current.bucket.gradients.empty()) {
      current.bucket.dtype = gradient.dtype;
      current.bucket.device = gradient.device;
      current.cap = std::exchange(first, false) ? caps.first_bytes : caps.bytes;
    }
    current.bucket.gradients.push_back(order[place]);
    current.bucket.bytes += gradient.bytes;
    current.last_place = place;
  }
  for (auto& [kind, rest] : open) {
    if (!rest.bucket.gradients.empty()) closed.push_back(std::move(rest));
  }
  std::sort(closed.begin(), closed.end(),
            [](const Open& a, const Open& b) { return a.last_place < b.last_place; });

  std::vector<Bucket> plan;
  for (Open& each : closed) plan.push_back(std::move(each.bucket));
  return plan;
}

std::vector<int> cuts_of(std::span<const Bucket> buckets) {
  std::vector<int> cuts = {0};
  for (const Bucket& bucket : buckets)
    cuts.push_back(cuts.back() + static_cast<int>(bucket.gradients.size()));
  return cuts;
}

}  // namespace paceline::schedule
