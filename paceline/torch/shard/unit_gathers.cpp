#include "paceline/torch/shard/unit_gathers.h"

#include <c10/util/StringUtil.h>

#include <algorithm>
#include <utility>

#include "paceline/core/base/base.h"
#include "paceline/core/base/own_lines.h"

namespace paceline::shard {

UnitGathers::UnitGathers(const Units& units, UnitMemory& memory, Communicator& group,
                         bool stay_whole, int ahead)
    : units_(units),
      memory_(memory),
      group_(group),
      stay_whole_(stay_whole),
      ahead_(ahead),
      states_(units.size(), stay_whole ? State::whole : State::absent),
      works_(units.size()) {}

bool UnitGathers::is_in_use(std::size_t unit) const {
  return std::ranges::find(in_use_, unit) != in_use_.end();
}

bool UnitGathers::are_ready(const std::vector<std::size_t>& units) const {
  if (is_held_) return true;
  return std::ranges::all_of(units, [this](std::size_t unit) {
    return states_[unit] == State::whole &&
           (stay_whole_ || units_[unit].is_root || is_in_use(unit));
  });
}

void UnitGathers::begin(const std::vector<std::size_t>& units, bool in_training) {
  if (are_ready(units)) return;
  if (stay_whole_) {
    start_all();
    for (const std::size_t unit : units) wait(unit);
    return;
  }
  const auto is_new = [&](std::size_t unit) { return !units_[unit].is_root && !is_in_use(unit); };
  if (std::ranges::any_of(units, is_new)) {
    for (const std::size_t unit : std::vector<std::size_t>(in_use_))
      if (std::ranges::find(units, unit) == units.end()) finished(unit);
  }
  for (const std::size_t unit : units)
    if (is_new(unit) || states_[unit] != State::whole) use_one(unit, in_training);
}

void UnitGathers::use_one(std::size_t unit, bool in_training) {
  if (in_training) {
    if (!last_order_) (void)tell_use(unit + 1);
    follow(unit);
  }
  if (states_[unit] == State::absent) start(unit);
  wait(unit);
  if (!units_[unit].is_root) in_use_.push_back(unit);
  tell(UnitEvent::Kind::begin, unit);
  if (in_training) start_ahead();
}

// A use that the last order does not have there shows that the order is not the same in all steps.
void UnitGathers::follow(std::size_t unit) {
  order_.push_back(unit);
  if (!last_order_ || has_changed_) return;
  if (place_ < last_order_->size() && (*last_order_)[place_] == unit) {
    ++place_;
    return;
  }
  has_changed_ = true;
  if (ahead_ == 0) return;
  ahead_ = 0;
  warn(c10::str("the units of the model are used in another order than in the last step ('",
                units_[unit].name, "' came ",
                place_ < last_order_->size()
                    ? c10::str("before '", units_[(*last_order_)[place_]].name, "'")
                    : std::string("once more"),
                "), so none is gathered ahead of its use from now on"));
  for (std::size_t u = 0; u < states_.size(); ++u)
    if (u != unit && !units_[u].is_root && !is_in_use(u)) empty(u);
}

// A gather may start once the unit `ahead_` uses before has begun.
void UnitGathers::start_ahead() {
  if (!last_order_ || has_changed_) return;
  const std::size_t end = std::min(last_order_->size(), place_ + static_cast<std::size_t>(ahead_));
  for (std::size_t at = place_; at < end; ++at) {
    const std::size_t unit = (*last_order_)[at];
    if (is_in_use(unit)) return;  // gathers start in the order of uses, on all ranks
    if (states_[unit] == State::absent) start(unit);
  }
}

void UnitGathers::begin_pass() {
  if (stay_whole_ || is_held_) return;
  for (const std::size_t unit : std::exchange(in_use_, {})) empty(unit);
}

void UnitGathers::finished(std::size_t unit) {
  if (stay_whole_ || is_held_ || !is_in_use(unit)) return;
  std::erase(in_use_, unit);
  empty(unit);
}

// A rank without a batch does not know the order before a step has shown it, so in the first one
// each use is told. Ranks that have nothing to tell (0) hear it.
std::size_t UnitGathers::tell_use(std::size_t use) {
  const auto own = static_cast<double>(use), none = -static_cast<double>(units_.size() + 2);
  std::vector<double> largest = {own, use > 0 ? -own : none};  // and the smallest, negated
  group_.all_reduce(buffer_of(largest), {.op = ReduceOp::max}).wait();
  if (largest[0] != -largest[1]) {
    const auto name_of = [this](double one) {
      const auto unit = static_cast<std::size_t>(one) - 1;
      return unit < units_.size() ? c10::str("'", units_[unit].name, "'") : std::string("none");
    };
    throw Error({Fault::mismatch,
                 c10::str("one rank uses ", name_of(-largest[1]), " next, and another ",
                          name_of(largest[0]),
                          ": all ranks must use the units of the model in the same order"),
                 {}});
  }
  return static_cast<std::size_t>(largest[0]);
}

void UnitGathers::take_part_in_rest() {
  if (stay_whole_ || has_changed_) return;
  if (last_order_) {
    for (; place_ < last_order_->size(); ++place_) take_part_in((*last_order_)[place_]);
    order_ = *last_order_;
    return;
  }
  const std::size_t end = units_.size() + 1;
  if (!order_.empty()) {
    (void)tell_use(end);
    return;
  }
  for (std::size_t use = tell_use(0); use != end; use = tell_use(0)) {
    order_.push_back(use - 1);
    take_part_in(order_.back());
  }
}

void UnitGathers::take_part_in(std::size_t unit) {
  for (const std::size_t one : std::exchange(in_use_, {})) empty(one);
  if (states_[unit] == State::absent) start(unit);
  wait(unit);
  if (!units_[unit].is_root) in_use_.push_back(unit);
  tell(UnitEvent::Kind::begin, unit);
}

void UnitGathers::start_all() {
  for (std::size_t u = 0; u < units_.size(); ++u)
    if (states_[u] == State::absent) start(u);
}

void UnitGathers::wait_for_all() {
  for (std::size_t u = 0; u < units_.size(); ++u)
    if (states_[u] == State::coming) wait(u);
}

void UnitGathers::forget() {
  wait_for_all();
  in_use_.clear();
  for (std::size_t u = 0; u < units_.size(); ++u) empty(u);
}

void UnitGathers::end_step() {
  if (!order_.empty()) last_order_ = std::exchange(order_, {});
  place_ = 0;
  has_changed_ = false;
  gathers_ = std::exchange(now_gathers_, 0);
  gathered_bytes_ = std::exchange(now_bytes_, 0);
  last_events_ = std::exchange(events_, {});
}

void UnitGathers::hold(bool held) {
  if (held) {
    start_all();
    wait_for_all();
    is_held_ = true;
    return;
  }
  is_held_ = false;
  if (stay_whole_) return;
  for (std::size_t u = 0; u < units_.size(); ++u)
    if (states_[u] == State::whole) memory_.take_writes(u);
  forget();
}

void UnitGathers::start(std::size_t unit) {
  if (!stay_whole_) memory_.fill(unit);
  try {
    works_[unit] = group_.all_gather(memory_.piece(unit), memory_.whole(unit));
  } catch (const Error& error) {
    explain(error, unit);
  }
  works_[unit].keep(memory_.owners(unit));
  states_[unit] = State::coming;
  ++now_gathers_;
  now_bytes_ += static_cast<double>(units_[unit].bytes);
  tell(UnitEvent::Kind::gather, unit);
}

void UnitGathers::wait(std::size_t unit) {
  if (states_[unit] != State::coming) return;
  try {
    works_[unit].wait();
  } catch (const Error& error) {
    explain(error, unit);
  }
  works_[unit] = {};
  states_[unit] = State::whole;
}

void UnitGathers::empty(std::size_t unit) {
  if (states_[unit] == State::absent) return;
  wait(unit);
  states_[unit] = State::absent;
  if (stay_whole_) return;
  memory_.empty(unit);
  tell(UnitEvent::Kind::empty, unit);
}

void UnitGathers::poison(const std::vector<std::size_t>& units) {
  for (const std::size_t unit : units) {
    if (!memory_.is_whole(unit)) memory_.fill(unit);
    memory_.poison(unit);
    states_[unit] = State::whole;
    if (!units_[unit].is_root && !is_in_use(unit)) in_use_.push_back(unit);
  }
}

void UnitGathers::tell(UnitEvent::Kind kind, std::size_t unit) {
  if (!stay_whole_) events_.push_back({kind, unit});
}

// No two units have the same size where their order is not fixed, so the size in the text of a
// mismatch names the other rank's unit.
void UnitGathers::explain(const Error& error, std::size_t unit) const {
  Failure failure = error.failure();
  std::string what = c10::str("while '", units_[unit].name, "' was gathered");
  if (failure.fault == Fault::mismatch && !stay_whole_) {
    std::string others;
    for (std::size_t u = 0; u < units_.size(); ++u) {
      const std::size_t count = units_[u].bytes / size_of(units_[u].parameters.dtype);
      if (u != unit && failure.what.find(c10::str("[", count, "]")) != std::string::npos)
        others += c10::str(others.empty() ? "" : ", ", "'", units_[u].name, "'");
    }
    if (!others.empty()) {
      what += c10::str(", another rank gathered ", others,
                       ": all ranks must use the units of the model in the same order");
    }
  }
  failure.what = c10::str(what, ": ", failure.what);
  throw Error(std::move(failure));
}

}  // namespace paceline::shard
