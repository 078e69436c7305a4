#include "paceline/torch/shard/use_order.h"

#include <utility>

namespace paceline::shard {

bool UseOrder::add(std::size_t unit) {
  const bool is_other = is_known() && !has_changed_ && expected() != unit;
  has_changed_ |= is_other;
  now_.push_back(unit);
  return !is_other;
}

std::optional<std::size_t> UseOrder::expected(std::size_t ahead) const {
  const std::size_t place = now_.size() + ahead;
  if (!is_known() || has_changed_ || place >= last_->size()) return std::nullopt;
  return (*last_)[place];
}

// A step without any use shows nothing.
void UseOrder::end_step() {
  if (!now_.empty()) {
    is_steady_ = !is_known() || now_ == *last_;
    last_ = std::exchange(now_, {});
  }
  has_changed_ = false;
}

}  // namespace paceline::shard
