#include "paceline/torch/shard/unit_gathers.h"

#include <c10/util/StringUtil.h>

#include <algorithm>
#include <utility>

#include "paceline/core/base/base.h"
#include "paceline/core/base/log.h"

namespace paceline::shard {
namespace {

// The same bytes as elements of another type.
template <typename MixedPrecision>
MixedPrecision as(const MixedPrecision& numbers, Dtype dtype) {
  return {numbers.data, numbers.size_bytes() / size_of(dtype), dtype};
}

[[noreturn]] void throw_in(const std::string& place, const Error& error) {
  Failure failure = error.failure();
  failure.what = c10::str(place, ": ", failure.what);
  throw Error(std::move(failure));
}

}  // namespace

UnitGathers::UnitGathers(const Units& units, UnitMemory& memory, Communicator& group,
                         const replica::WatchedLane& lane, bool stay_whole, int ahead,
                         GatherFacts facts)
    : units_(units),
      memory_(memory),
      group_(group),
      stay_whole_(stay_whole),
      ahead_(ahead),
      lane_(lane),
      facts_(std::move(facts)),
      states_(units.size(), stay_whole ? State::whole : State::absent),
      purposes_(units.size()),
      calls_(units.size()) {}

bool UnitGathers::is_in_use(std::size_t unit) const {
  return std::ranges::find(in_use_, unit) != in_use_.end();
}

bool UnitGathers::are_ready(const std::vector<std::size_t>& units, UnitUse use) const {
  if (is_held_) return true;
  const bool in_training = use == UnitUse::training;
  if (in_training && !evaluated_.empty()) return false;
  return std::ranges::all_of(units, [&](std::size_t unit) {
    return states_[unit] == State::whole && (stay_whole_ || !in_training || is_in_use(unit));
  });
}

void UnitGathers::begin(const std::vector<std::size_t>& units, UnitUse use) {
  if (are_ready(units, use)) return;
  if (stay_whole_) {
    start_all();
    for (const std::size_t unit : units) wait(unit);
    return;
  }
  if (use == UnitUse::evaluation) return evaluate(units);
  end_evaluation();
  const auto is_new = [this](std::size_t unit) { return !is_in_use(unit); };
  if (std::ranges::any_of(units,
                          [&](std::size_t unit) { return is_new(unit) && !units_[unit].is_root; }))
    leave(units);
  for (const std::size_t unit : units)
    if (is_new(unit)) train_on(unit);
}

// Training goes on to `next`.
void UnitGathers::leave(const std::vector<std::size_t>& next) {
  for (const std::size_t unit : std::vector<std::size_t>(in_use_))
    if (std::ranges::find(next, unit) == next.end()) finished(unit);
}

void UnitGathers::train_on(std::size_t unit) {
  if (is_told_) (void)tell_use(unit + 1);
  const bool is_first = order_.uses() == 0;
  if (const auto expected = order_.expected(); !order_.add(unit)) order_has_changed(unit, expected);
  if (states_[unit] == State::absent) start(unit, Purpose::training);
  wait(unit);
  in_use_.push_back(unit);
  last_ = unit;
  tell(UnitEvent::Kind::begin, unit);
  if (is_first && order_.is_known()) is_told_ = facts_.has_shadows();
  start_ahead();
}

// Units that training has gathered stay as they are, and so do those that it has begun to gather.
void UnitGathers::evaluate(const std::vector<std::size_t>& units) {
  const auto is_over = [&](std::size_t unit) {
    return !units_[unit].is_root && std::ranges::find(units, unit) == units.end();
  };
  const bool is_first = evaluated_.empty();
  replica::WatchedLane::Call told;
  if (is_first) told = facts_.tell_reading(units.front());
  for (const std::size_t unit : evaluated_)
    if (is_over(unit)) empty(unit);
  std::erase_if(evaluated_, is_over);
  for (const std::size_t unit : units) {
    if (states_[unit] == State::absent) {
      start(unit, Purpose::evaluation);
      evaluated_.push_back(unit);
      last_ = unit;
      tell(UnitEvent::Kind::begin, unit);
    }
    wait(unit);
  }
  if (is_first) facts_.wait_for_reading(told);
}

void UnitGathers::end_evaluation() {
  for (const std::size_t unit : std::exchange(evaluated_, {})) empty(unit);
}

// It was gathered ahead for nothing, on all ranks, and so was what follows it.
void UnitGathers::order_has_changed(std::size_t unit, std::optional<std::size_t> expected) {
  if (is_told_ || ahead_ == 0) return;
  for (std::size_t u = 0; u < states_.size(); ++u)
    if (u != unit && !is_in_use(u)) empty(u);
  if (std::exchange(has_warned_, true)) return;
  warn(c10::str(
      "the units of the model are used in another order than in the last step ('",
      units_[unit].name, "' came ",
      expected ? c10::str("before '", units_[*expected].name, "'") : std::string("once more"),
      "), so none is gathered ahead of its use until two steps have the same order"));
}

// A gather may start once the unit `ahead_` uses before has begun.
void UnitGathers::start_ahead() {
  if (is_told_ || !order_.is_steady()) return;
  for (std::size_t k = 0; k < static_cast<std::size_t>(ahead_); ++k) {
    const auto unit = order_.expected(k);
    // Gathers start in the order of uses, on all ranks.
    if (!unit || is_in_use(*unit)) return;
    if (states_[*unit] == State::absent) start(*unit, Purpose::training);
  }
}

void UnitGathers::begin_pass() {
  if (stay_whole_ || is_held_) return;
  leave({});
}

// The root stays.
void UnitGathers::finished(std::size_t unit) {
  if (stay_whole_ || is_held_ || units_[unit].is_root || !is_in_use(unit)) return;
  std::erase(in_use_, unit);
  empty(unit);
}

// A rank tells which unit it uses next, from 1, or 0: none. Returns what some rank uses; 0: no rank
// uses any more.
std::size_t UnitGathers::tell_use(std::size_t use) {
  std::vector<std::int64_t> own = {static_cast<std::int64_t>(use)};
  std::vector<std::int64_t> all(static_cast<std::size_t>(group_.size()));
  if (use > 0) purposes_[use - 1] = Purpose::training;
  const auto where = [&] {
    if (use == 0) return "for the units that the others use next" + last_use();
    return c10::str("before its use of '", units_[use - 1].name, "',", last_use());
  };
  try {
    lane_.wait(lane_.call([&] { return group_.all_gather(buffer_of(own), buffer_of(all)); }),
               where);
  } catch (const Error& error) {
    throw_in(use > 0 ? c10::str("before the use of '", units_[use - 1].name, "'")
                     : std::string("while the others' uses were heard"),
             error);
  }
  const auto is_use = [](std::int64_t one) { return one != 0; };
  const auto first = std::ranges::find_if(all, is_use);
  if (first == all.end()) return 0;
  const auto other =
      std::ranges::find_if(all, [&](std::int64_t one) { return is_use(one) && one != *first; });
  if (other == all.end()) return static_cast<std::size_t>(*first);
  const auto rank_of = [&](auto one) { return static_cast<int>(one - all.begin()); };
  const auto name_of = [this](std::int64_t one) {
    return c10::str("'", units_[static_cast<std::size_t>(one) - 1].name, "'");
  };
  // No rank leaves before all of them know.
  try {
    group_.barrier().wait();
  } catch (const Error&) {  // the others do
  }
  throw Error({Fault::mismatch,
               c10::str("rank ", rank_of(first), " uses ", name_of(*first), " next, and rank ",
                        rank_of(other), " ", name_of(*other),
                        ": all ranks must use the units of the model in the same order"),
               {rank_of(first), rank_of(other)}});
}

void UnitGathers::take_part_in_rest() {
  if (stay_whole_) return;
  end_evaluation();
  const bool is_first = order_.uses() == 0;
  if (is_first && order_.is_known()) {
    take_part_in(order_.last().front());
    is_told_ = facts_.has_shadows();
  }
  if (is_told_) {
    while (const std::size_t use = tell_use(0)) take_part_in(use - 1);
    return;
  }
  while (const auto unit = order_.expected()) take_part_in(*unit);
}

void UnitGathers::take_part_in(std::size_t unit) {
  leave({});  // the others gather it also where it was in use
  (void)order_.add(unit);
  if (states_[unit] == State::absent) start(unit, Purpose::training);
  wait(unit);
  if (!is_in_use(unit)) in_use_.push_back(unit);
  tell(UnitEvent::Kind::begin, unit);
}

void UnitGathers::start_all() {
  for (std::size_t u = 0; u < units_.size(); ++u)
    if (states_[u] == State::absent) start(u, Purpose::gathered);
}

void UnitGathers::wait_for_all() {
  for (std::size_t u = 0; u < units_.size(); ++u)
    if (states_[u] == State::coming) wait(u);
}

void UnitGathers::forget() {
  wait_for_all();
  in_use_.clear();
  evaluated_.clear();
  for (std::size_t u = 0; u < units_.size(); ++u) empty(u);
}

void UnitGathers::end_step() {
  order_.end_step();
  is_told_ = !order_.is_known();
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

void UnitGathers::start(std::size_t unit, Purpose purpose) {
  stay_whole_ ? memory_.hide(unit) : memory_.fill(unit);
  purposes_[unit] = purpose;
  try {
    const Dtype dtype = type_of(unit, purpose);
    calls_[unit] = lane_.call([&] {
      return group_.all_gather(as(memory_.piece(unit), dtype), as(memory_.whole(unit), dtype));
    });
  } catch (const Error& error) {
    throw_in(c10::str("while ", gather_of(unit, purposes_[unit]), " was gathered"), error);
  }
  calls_[unit].work.keep(memory_.owners(unit));
  states_[unit] = State::coming;
  ++now_gathers_;
  now_bytes_ += static_cast<double>(units_[unit].bytes);
  tell(UnitEvent::Kind::gather, unit);
}

void UnitGathers::wait(std::size_t unit) {
  if (states_[unit] != State::coming) return;
  try {
    lane_.wait(calls_[unit],
               [&] { return "for " + gather_of(unit, purposes_[unit]) + last_use(); });
  } catch (const Error& error) {
    throw_in(c10::str("while ", gather_of(unit, purposes_[unit]), " was gathered"), error);
  }
  calls_[unit] = {};
  states_[unit] = State::whole;
  if (stay_whole_) memory_.show(unit);
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
    if (stay_whole_) memory_.show(unit);
    memory_.poison(unit);
    states_[unit] = State::whole;
    if (!is_in_use(unit)) in_use_.push_back(unit);
  }
}

void UnitGathers::tell(UnitEvent::Kind kind, std::size_t unit) {
  if (!stay_whole_) events_.push_back({kind, unit});
}

// Gathers of one purpose have one type, and no two units one size: ranks that gather different
// things fail, and the text of the failure tells what the other one gathered.
Dtype UnitGathers::type_of(std::size_t unit, Purpose purpose) const {
  if (stay_whole_ || purpose == Purpose::training) return units_[unit].parameters.dtype;
  return purpose == Purpose::evaluation ? Dtype::u8 : Dtype::i8;
}

std::string UnitGathers::last_use() const {
  return last_ ? c10::str(" after its use of '", units_[*last_].name, "'") : std::string();
}

// "'blocks.0' for an evaluation"
std::string UnitGathers::gather_of(std::size_t unit, Purpose purpose) const {
  const std::string name = c10::str("'", units_[unit].name, "'");
  if (stay_whole_) return name;
  if (purpose == Purpose::training) return name + " in a training pass";
  return name + (purpose == Purpose::evaluation ? " for an evaluation" : " among all parameters");
}

// Finds what ranks gathered, or were about to gather for an evaluation, by the calls in a text.
// GatherFacts::tell_reading sends as many bytes as the unit's number.
std::vector<std::string> UnitGathers::gathers_in(const std::string& text) const {
  std::vector<std::string> found;
  const auto look_for = [&](const std::string& call, std::size_t unit, Purpose purpose) {
    const std::string gather = gather_of(unit, purpose);
    if (text.find(call) != std::string::npos && std::ranges::find(found, gather) == found.end())
      found.push_back(gather);
  };
  for (std::size_t u = 0; u < units_.size(); ++u) {
    for (const Purpose one : {Purpose::training, Purpose::evaluation, Purpose::gathered}) {
      const Dtype dtype = type_of(u, one);
      look_for(c10::str("all_gather ", name_of(dtype), "[", units_[u].bytes / size_of(dtype), "]"),
               u, one);
    }
    look_for(c10::str("all_reduce i8[", u + 1, "]"), u, Purpose::evaluation);
  }
  return found;
}

void UnitGathers::explain(Failure& failure) const {
  static constexpr const char* kMust =
      "all ranks must use the units of the model in the same order";
  const bool is_told = failure.what.find(kMust) != std::string::npos;
  if (failure.fault != Fault::mismatch || stay_whole_ || is_told) return;
  const auto gathers = gathers_in(failure.what);
  if (gathers.empty()) return;
  std::string what = c10::str("one rank gathered ", gathers[0]);
  if (gathers.size() > 1) what += c10::str(", another one ", gathers[1]);
  failure.what = c10::str(
      what, ", when this one was", last_ ? last_use() : " before its first unit", ": ", kMust,
      ", in training and in evaluations; under DataParallel::gathered() one may evaluate alone: ",
      failure.what);
}

}  // namespace paceline::shard
