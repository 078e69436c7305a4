// UseOrder: in which order a step uses the units, beside the order of the step before.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

namespace paceline::shard {

// A value. All ranks that take down the same uses have the same one.
class UseOrder {
 public:
  // A step has shown an order.
  bool is_known() const { return last_.has_value(); }
  const std::vector<std::size_t>& last() const { return *last_; }  // REQUIRES: is_known()
  std::size_t uses() const { return now_.size(); }                 // of the present step
  // Takes down the next use. False: it is the first of this step that the last one did not have
  // there.
  bool add(std::size_t unit);
  bool has_changed() const { return has_changed_; }
  // The last step used this next. Nothing: it used no more, or this step has gone another way.
  std::optional<std::size_t> expected(std::size_t ahead = 0) const;
  // The step before had the order of the one before it, as far as there was one: it will come
  // again.
  bool is_steady() const { return is_steady_; }
  void end_step();

 private:
  std::vector<std::size_t> now_;
  std::optional<std::vector<std::size_t>> last_;
  bool has_changed_ = false, is_steady_ = true;
};

}  // namespace paceline::shard
