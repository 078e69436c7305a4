#include "paceline/core/server/machine/range_value.h"

#include <algorithm>
#include <tuple>

#include "paceline/core/base/reduce.h"

namespace paceline::server {
namespace {

// Weights of older steps are forgotten: a push that comes later still has the oldest's share.
constexpr std::size_t kMostStepWeights = 1024;

}  // namespace

RangeValue::RangeValue(const TableShape& shape, std::size_t range)
    : shape_(&shape),
      value_(shape.ranges[range].elements * shape.element_bytes()),
      slots_(shape.slots(), std::vector<std::byte>(value_.size())) {
  if (shape.pacing.rounds) rounds_.emplace(*shape.pacing.rounds);
  for (const int worker : shape.members.workers) join(worker);
}

void RangeValue::assign(Bytes values, std::int64_t steps) {
  const Bytes first = values.first(value_.size());
  value_.assign(first.begin(), first.end());
  rule_steps_ = steps;
  if (shape_->pacing.compensation) compensation_.begin(value_);
  if (rounds_) rounds_->begin(shape_->members.workers, version(), value_);
  for (auto& slot : slots_) {
    values = values.subspan(value_.size());
    if (values.empty()) return;
    slot.assign(values.begin(), values.begin() + std::ssize(value_));
  }
}

void RangeValue::join(int worker) {
  clocks_.emplace(worker, clock());
  if (shape_->pacing.elastic) differences_.try_emplace(worker, value_.size());
  if (rounds_) rounds_->join(worker, version(), value_);
}

void RangeValue::raise(int worker, std::int64_t clock) {
  std::int64_t& own = clocks_.at(worker);
  own = std::max(own, clock);
  if (!shape_->pacing.by_steps) show();
}

void RangeValue::leave(int worker) {
  clocks_.erase(worker);
  own_.erase(worker);
  weights_.erase(worker);
  said_.erase(worker);
  quiet_.erase(worker);
  readers_.erase(worker);
  compensation_.leave(worker);
  differences_.erase(worker);
  if (rounds_) {
    rounds_->leave(worker);
    std::erase_if(waiting_, [&](const Push& push) { return push.facts.worker == worker; });
  }
  if (!shape_->pacing.by_steps) show();
}

void RangeValue::quiesce(int worker) {
  quiet_.insert(worker);
  if (rounds_) rounds_->rest(worker);
  if (!shape_->pacing.by_steps) show();
}

void RangeValue::wake() {
  if (!shape_->pacing.by_steps) {
    const std::int64_t highest = clock();
    for (auto& [worker, own] : clocks_) own = highest;
  }
  if (rounds_) {
    std::vector<int> last;
    for (const Push& push : waiting_) last.push_back(push.facts.worker);
    if (!last.empty() || !weights_.empty()) close_round(last);
    rounds_->wake(version(), value_);
  }
  if (shape_->pacing.compensation) compensation_.begin(value_);
  quiet_.clear();
}

int RangeValue::counted_in(std::int64_t step) const {
  return static_cast<int>(std::ranges::count_if(
      clocks_, [&](const auto& one) { return one.second <= step && !is_quiet(one.first); }));
}

std::int64_t RangeValue::clock() const {
  if (shape_->pacing.by_steps) return closed_steps_;
  std::int64_t lowest = kAnyLead, highest = 0;
  for (const auto& [worker, own] : clocks_) {
    if (!is_quiet(worker)) lowest = std::min(lowest, own);
    highest = std::max(highest, own);
  }
  return std::min(lowest, highest);  // the highest, if all are quiet
}

std::vector<std::byte> RangeValue::combined(std::vector<Push> pushes, double total) const {
  const bool weighs = !shape_->rule.entry.sums || rounds_;
  if (pushes.empty() || (total <= 0 && weighs)) return {};
  const Dtype dtype = shape_->spec.dtype;
  std::vector<MutableBytes> terms;
  for (Push& push : pushes) {
    if (weighs && push.facts.weight != 1) scale(dtype, push.values, push.facts.weight);
    terms.push_back(push.values);
  }
  sum_in_place(terms, [&](MutableBytes left, MutableBytes right) {
    reduce(ReduceOp::sum, dtype, left, right, left);
    return left;
  });
  if (weighs) scale(dtype, terms.front(), 1 / total);
  return std::move(pushes.front().values);
}

void RangeValue::close_step(std::span<const PushFacts> pushes, double total, Bytes mean,
                            std::span<const double> settings) {
  keep_for_readers();
  update(pushes, mean, settings);
  ++closed_steps_;
  step_weights_.push_back(total);
  if (step_weights_.size() > kMostStepWeights) step_weights_.pop_front();
}

double RangeValue::share_late(Push& push) const {
  const std::int64_t ago = closed_steps_ - push.facts.stamp;  // 1: the last step
  const std::size_t back = std::min(static_cast<std::size_t>(ago), step_weights_.size());
  push.facts.weight /= static_cast<double>(1 + ago);
  return step_weights_[step_weights_.size() - back];
}

void RangeValue::apply_late(const PushFacts& push, Bytes mean, std::span<const double> settings) {
  update({&push, 1}, mean, settings);
}

void RangeValue::take(Push push) {
  clocks_.at(push.facts.worker) = push.facts.stamp + 1;
  said_[push.facts.worker] = push.facts.weight;
  if (rounds_) rounds_->arrive(push.facts.worker);
  waiting_.push_back(std::move(push));
  show();
}

// Updates of one stamp are one sum; stamps follow each other.
void RangeValue::show() {
  if (rounds_) return;
  if (shape_->pacing.softsync > 0) return show_together();
  const std::int64_t edge = shape_->pacing.shown_below(clock());
  const auto kept = std::ranges::stable_partition(
      waiting_, [&](const Push& push) { return push.facts.stamp >= edge; });
  std::vector<Push> shown(std::make_move_iterator(kept.begin()),
                          std::make_move_iterator(kept.end()));
  waiting_.erase(kept.begin(), kept.end());
  std::ranges::sort(shown, {},
                    [](const Push& push) { return std::tie(push.facts.stamp, push.facts.worker); });
  for (auto first = shown.begin(); first != shown.end();) {
    const auto last = std::find_if(first, shown.end(), [&](const Push& push) {
      return push.facts.stamp != first->facts.stamp;
    });
    apply({std::make_move_iterator(first), std::make_move_iterator(last)});
    first = last;
  }
}

// Those that have come first are one sum, whatever their stamps; also fewer, when no more can come.
void RangeValue::show_together() {
  const std::size_t needed = shape_->pacing.pushes_in_step(clocks_.size());
  while (waiting_.size() >= needed || (are_all_quiet() && !waiting_.empty())) {
    const auto end =
        waiting_.begin() + static_cast<std::ptrdiff_t>(std::min(needed, waiting_.size()));
    std::vector<Push> step(std::make_move_iterator(waiting_.begin()), std::make_move_iterator(end));
    waiting_.erase(waiting_.begin(), end);
    std::ranges::sort(step, {}, [](const Push& push) {
      return std::tie(push.facts.worker, push.facts.sequence);
    });
    apply(std::move(step));
  }
}

bool RangeValue::waits_for_round(int worker) const {
  return std::ranges::any_of(waiting_,
                             [&](const Push& push) { return push.facts.worker == worker; });
}

void RangeValue::close_round(const std::vector<int>& workers) {
  for (Push& push : waiting_) {
    if (std::ranges::find(workers, push.facts.worker) == workers.end()) continue;
    note_applied(push.facts);
    weights_[push.facts.worker] = push.facts.weight;
    rounds_->contribute(push.facts.worker, std::move(push.values));
  }
  std::erase_if(waiting_, [&](const Push& push) {
    return std::ranges::find(workers, push.facts.worker) != workers.end();
  });
  ++updates_;
  if (std::vector<std::byte> mean = consensus(); !mean.empty()) value_ = std::move(mean);
  rounds_->close(workers, version(), value_);
}

// The mean of all contributions, by their workers' weights. Those that have said none count as the
// mean of the others.
std::vector<std::byte> RangeValue::consensus() const {
  double said = 0, total = 0;
  for (const auto& [worker, weight] : weights_) said += weight;
  if (!weights_.empty()) said /= static_cast<double>(weights_.size());
  std::vector<Push> all;
  for (const auto& [worker, values] : rounds_->contributions()) {
    const auto own = weights_.find(worker);
    const double weight = own == weights_.end() ? said : own->second;
    all.push_back({.facts = {.worker = worker, .weight = weight}, .values = values});
    total += weight;
  }
  return combined(std::move(all), total);
}

// These updates are one.
void RangeValue::apply(std::vector<Push> pushes) {
  std::vector<PushFacts> facts;
  for (const Push& push : pushes) facts.push_back(push.facts);
  // A weight counts with its update, so that it does not matter who pushes ahead of a reader.
  for (const PushFacts& push : facts) weights_[push.worker] = push.weight;
  std::vector<double> settings = pushes.front().settings;
  for (Push& push : pushes) adapt(push);
  if (shape_->pacing.stale_rate != StaleRate::full) slow_down(pushes, settings);
  update(facts, combined(std::move(pushes), total_of(weights_)), settings);
  std::erase_if(weights_, [&](const auto& one) { return !has(one.first); });
}

// Turns a push into the update that it is, if that follows from the values that it finds.
void RangeValue::adapt(Push& push) {
  const Pacing& pacing = shape_->pacing;
  const Dtype dtype = shape_->spec.dtype;
  if (pacing.compensation) {
    const auto mean_square = pacing.slots() > 0 ? MutableBytes(slots_.back()) : MutableBytes();
    compensation_.compensate(*pacing.compensation, dtype, push.facts.worker, push.values, value_,
                             mean_square);
  }
  if (!pacing.elastic) return;
  std::vector<std::byte> centre = value_;
  scale(dtype, centre, -1);
  reduce(ReduceOp::sum, dtype, push.values, centre, push.values);
  scale(dtype, push.values, *pacing.elastic);
  if (has(push.facts.worker)) differences_[push.facts.worker] = push.values;
}

// Each update has a rate of its own. Their sum is made by the mean of these, in which each weighs as
// much more or less.
void RangeValue::slow_down(std::vector<Push>& pushes, std::vector<double>& settings) const {
  std::vector<double> rates;
  double weight = 0, slowed = 0;
  for (const Push& push : pushes) {
    rates.push_back(shape_->pacing.share_of_rate(staleness_of(push.facts)));
    weight += push.facts.weight;
    slowed += push.facts.weight * rates.back();
  }
  const bool are_alike = std::ranges::count(rates, rates.front()) == std::ssize(rates);
  const double mean = are_alike || weight <= 0 ? rates.front() : slowed / weight;
  const auto& known = shape_->rule.entry.settings;
  const auto rate = std::ranges::find(known, "rate", &Setting::name);
  settings[static_cast<std::size_t>(rate - known.begin())] *= mean;
  for (std::size_t i = 0; i < pushes.size(); ++i) pushes[i].facts.weight *= rates[i] / mean;
}

// Workers that have said no weight yet count as the mean of those that have.
double RangeValue::total_of(const std::map<int, double>& weights) const {
  double said = 0;
  for (const auto& [worker, weight] : weights) said += weight;
  if (weights.size() == clocks_.size() || weights.empty()) return said;
  return said * static_cast<double>(clocks_.size()) / static_cast<double>(weights.size());
}

void RangeValue::note_applied(const PushFacts& push) {
  if (!has(push.worker)) return;
  own_[push.worker] = std::max(own_[push.worker], push.sequence);
  Reader& reader = readers_[push.worker];
  ++reader.applied;
  reader.staleness += staleness_of(push);
}

// The versions before its own that its worker had not read.
std::uint64_t RangeValue::staleness_of(const PushFacts& push) const {
  return version() - std::min(push.read, version());
}

// If nothing counts, nothing moves.
void RangeValue::update(std::span<const PushFacts> pushes, Bytes mean,
                        std::span<const double> settings) {
  for (const PushFacts& push : pushes) note_applied(push);
  ++updates_;
  if (mean.empty()) return;
  std::vector<std::byte*> slots;
  for (int i = 0; i < shape_->rule.entry.slots; ++i)
    slots.push_back(slots_[static_cast<std::size_t>(i)].data());
  shape_->rule.entry.step({.dtype = shape_->spec.dtype,
                           .count = value_.size() / shape_->element_bytes(),
                           .value = value_.data(),
                           .gradient = mean.data(),
                           .slots = slots,
                           .number = ++rule_steps_,
                           .settings = settings});
}

void RangeValue::keep_for_readers() {
  if (!shape_->pacing.exact || shape_->pacing.lead == 0) return;
  earlier_.push_back(value_);
  if (std::ssize(earlier_) > shape_->pacing.lead) earlier_.pop_front();
}

RangeValue::View RangeValue::view(std::int64_t least) const {
  if (!shape_->pacing.exact) return {clock(), version(), value_};
  const std::int64_t wanted = std::max<std::int64_t>(least, closed_steps_ - std::ssize(earlier_));
  if (wanted >= closed_steps_) return {closed_steps_, version(), value_};
  return {wanted, static_cast<std::uint64_t>(wanted),
          earlier_[earlier_.size() - static_cast<std::size_t>(closed_steps_ - wanted)]};
}

RangeValue::View RangeValue::row_for(int reader, std::uint32_t pull, std::int64_t least) {
  View row = view(least);
  if (shape_->pacing.elastic) row.values = differences_.at(reader);
  if (rounds_) return {row.clock, rounds_->version_for(reader), rounds_->mean_for(reader)};
  if (!shape_->pacing.compensation) return row;
  const auto& answered = compensation_.answer(
      reader, {pull, row.clock, row.version, {row.values.begin(), row.values.end()}});
  return {answered.clock, answered.version, answered.values};
}

std::uint64_t RangeValue::version() const {
  return shape_->pacing.by_steps ? static_cast<std::uint64_t>(closed_steps_) : updates_;
}

// A reader knows its own weight, also while its update is not shown.
double RangeValue::weight_of_all(int reader) const {
  if (shape_->pacing.by_steps) return step_weights_.empty() ? 0 : step_weights_.back();
  std::map<int, double> weights = weights_;
  if (const auto own = said_.find(reader); own != said_.end()) weights[reader] = own->second;
  return total_of(weights);
}

RowFacts RangeValue::facts_for(int reader, const View& view) const {
  const auto found = readers_.find(reader);
  const Reader own = found == readers_.end() ? Reader{} : found->second;
  return {view.version, own.applied, own.staleness, weight_of_all(reader)};
}

std::vector<std::byte> RangeValue::values_and_state() const {
  std::vector<std::byte> all = value_;
  for (const auto& slot : slots_) all.insert(all.end(), slot.begin(), slot.end());
  return all;
}

std::uint64_t RangeValue::own(int worker) const {
  const auto found = own_.find(worker);
  return found == own_.end() ? 0 : found->second;
}

}  // namespace paceline::server
