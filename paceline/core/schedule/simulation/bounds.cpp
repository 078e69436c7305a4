#include "paceline/core/schedule/simulation/bounds.h"

#include <algorithm>

#include "paceline/core/base/check.h"

namespace paceline::schedule {

Bounds bounds_of(const Model& model, const LinkCosts& links, double ratio) {
  const double byte = links.least_per_byte() * ratio;
  Bounds bounds{.compute = model.compute(), .transfer = byte * static_cast<double>(model.bytes())};
  double sent = 0, still_to_compute = bounds.compute;
  for (const Tensor& tensor : model.tensors) {
    sent += byte * static_cast<double>(tensor.bytes);
    bounds.crossing = std::max(bounds.crossing, sent + still_to_compute);
    still_to_compute -= tensor.forward + tensor.backward + tensor.update;
  }
  double still_to_send = bounds.transfer, now = model.forward();
  for (int place = 0; place < model.size(); ++place) {
    now += model.sent(place).backward;
    bounds.with_barrier = std::max(bounds.with_barrier, now + still_to_send);
    still_to_send -= byte * static_cast<double>(model.sent(place).bytes);
  }
  bounds.with_barrier += model.update();
  return bounds;
}

double communication_ratio(const Model& model, const LinkCosts& links) {
  return links.all_reduce.beta * static_cast<double>(model.bytes()) / model.compute();
}

Model with_communication_ratio(const Model& model, const LinkCosts& links, double rho) {
  PACELINE_CHECK(rho > 0, "a ratio of communication to computation of {}: give more than 0", rho);
  return scaled(model, communication_ratio(model, links) / rho);
}

}  // namespace paceline::schedule
