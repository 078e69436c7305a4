#include "paceline/torch/precision/autocast.h"

#include <ATen/autocast_mode.h>

namespace paceline {

Autocast::Autocast(std::optional<at::ScalarType> type, at::DeviceType device) : device_(device) {
  if (!type) return;
  before_ = {at::autocast::is_autocast_enabled(device_), at::autocast::get_autocast_dtype(device_)};
  at::autocast::increment_nesting();
  at::autocast::set_autocast_enabled(device_, true);
  at::autocast::set_autocast_dtype(device_, *type);
}

Autocast::~Autocast() {
  if (!before_) return;
  at::autocast::set_autocast_enabled(device_, before_->is_enabled);
  at::autocast::set_autocast_dtype(device_, before_->type);
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
}

}  // namespace paceline
