#include "paceline/torch/strategy/local/adacomm_rule.h"

#include <algorithm>
#include <cmath>

namespace paceline::strategy {

void AdaCommRule::begin(double loss, double rate) {
  first_loss = std::max(loss, 0.0);
  first_rate = last_rate = rate;
}

int AdaCommRule::next(int period, double loss, double rate) {
  const bool rate_changed = rate != last_rate;
  last_rate = rate;
  const double by_rate = rate > 0 ? first_rate / rate : 1;
  const double fallen = first_loss > 0 ? by_rate * std::max(loss, 0.0) / first_loss : 0;
  const double wanted = std::ceil(std::sqrt(fallen) * start);
  const int found = std::isfinite(wanted) ? static_cast<int>(std::clamp(wanted, 1.0, 1e6)) : 1;
  if (found < period || rate_changed) return found;
  return std::max(1, period / 2);
}

}  // namespace paceline::strategy
