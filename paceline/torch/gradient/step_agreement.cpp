#include "paceline/torch/gradient/step_agreement.h"

#include <c10/util/StringUtil.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "paceline/core/base/base.h"

namespace paceline::gradient {
namespace {

constexpr std::size_t kFacts = 4;  // of each rank

Failure not_said_by_all(const std::vector<bool>& said) {
  const int told = static_cast<int>(std::ranges::find(said, true) - said.begin()),
            silent = static_cast<int>(std::ranges::find(said, false) - said.begin());
  return {Fault::mismatch,
          c10::str("rank ", told, " called DataParallel::weight() and rank ", silent,
                   " did not, so their gradients cannot be weighed against each other: call it on "
                   "all ranks or on none"),
          {told, silent}};
}

Failure of_several_trainings(const std::vector<double>& trainings) {
  const auto other = std::ranges::find_if(trainings, [&](double t) { return t != trainings[0]; });
  const int rank = static_cast<int>(other - trainings.begin());
  return {Fault::mismatch,
          c10::str("rank 0 began a step of one DataParallel and rank ", rank,
                   " of another one on the same group, so they told each other weights that do not "
                   "belong together: begin the steps of several DataParallels in one order on all "
                   "ranks, or make each on a group of its own (job.world().split(0))"),
          {0, rank}};
}

Failure ends_of_several_trainings() {
  return {Fault::mismatch,
          "ranks ended steps of several DataParallels on the same group, not all of them the same "
          "one: end their steps in one order on all ranks, or make each on a group of its own "
          "(job.world().split(0))",
          {}};
}

constexpr std::size_t kNumberBytes = sizeof(std::uint64_t);

// Appends the bytes of a number and their complements. Of the bytes' maxima over all ranks, one and
// its complement add up to 255 where all numbers are equal.
void append_compared(std::vector<std::uint8_t>& bytes, std::uint64_t number) {
  for (std::size_t k = 0; k < kNumberBytes; ++k)
    bytes.push_back(static_cast<std::uint8_t>(number >> (8 * k)));
  for (std::size_t k = 0; k < kNumberBytes; ++k)
    bytes.push_back(static_cast<std::uint8_t>(~number >> (8 * k)));
}

// Whether numbers that were appended differ.
bool differ(std::span<const std::uint8_t> maxima) {
  for (std::size_t k = 0; k < kNumberBytes; ++k)
    if (maxima[k] + maxima[kNumberBytes + k] != 255) return true;
  return false;
}

}  // namespace

// The buffer is in use until the operation has ended.
StepAgreement::~StepAgreement() {
  if (!told_weights_.work.done())
    told_weights_.work.keep(std::make_shared<std::vector<double>>(std::move(buffer_)));
}

void StepAgreement::tell_weight(const replica::RankWeight& own, bool has_written) {
  own_ = own;
  has_told_weight_ = true;
  const auto first = kFacts * static_cast<std::size_t>(group_.rank());
  buffer_.assign(kFacts * static_cast<std::size_t>(group_.size()), 0.0);
  buffer_[first] = own.weight;
  buffer_[first + 1] = own.said ? 1 : 0;
  buffer_[first + 2] = has_written && group_.size() > 1 ? 1 : 0;  // alone nobody misses it
  buffer_[first + 3] = static_cast<double>(training_);
  if (group_.size() > 1)
    told_weights_ = lane_.call([this] { return group_.all_reduce(buffer_of(buffer_)); });
}

const StepWeights& StepAgreement::weights() {
  if (weights_) return *weights_;
  lane_.wait(told_weights_, [this] { return "for the weights of a step" + where_(); });
  StepWeights all;
  std::vector<bool> said;
  std::vector<double> trainings;
  for (std::size_t rank = 0; kFacts * rank < buffer_.size(); ++rank) {
    const double weight = buffer_[kFacts * rank];
    all.of_ranks.push_back(weight);
    all.total += weight;
    all.shadows += weight == 0;
    if (all.root < 0 && weight > 0) all.root = static_cast<int>(rank);
    said.push_back(buffer_[kFacts * rank + 1] != 0);
    all.has_writes |= buffer_[kFacts * rank + 2] != 0;
    trainings.push_back(buffer_[kFacts * rank + 3]);
  }
  if (std::ranges::any_of(trainings, [&](double t) { return t != trainings[0]; }))
    throw Error(of_several_trainings(trainings));
  if (std::ranges::find(said, !own_.said) != said.end()) throw Error(not_said_by_all(said));
  weights_ = std::move(all);
  return *weights_;
}

// The length tells the unit, so that a mismatch does.
replica::WatchedLane::Call StepAgreement::tell_reading(std::size_t unit) {
  auto word = std::make_shared<std::vector<std::int8_t>>(unit + 1);
  auto told = lane_.call(
      [&] { return group_.all_reduce(buffer_of(std::span(*word)), {.op = ReduceOp::max}); });
  told.work.keep(std::move(word));
  return told;
}

void StepAgreement::wait_for(const replica::WatchedLane::Call& told) {
  lane_.wait(told, [this] { return "to read parameters" + where_(); });
}

std::vector<bool> StepAgreement::used_by_any(const std::vector<bool>& used) {
  if (group_.size() == 1) return used;
  std::vector<std::uint8_t> flags(used.begin(), used.end());
  append_compared(flags, training_);
  if (compared_ != 0) append_compared(flags, compared_);
  flags.resize(used.size() + 4 * kNumberBytes);  // zeros: not compared
  lane_.wait(lane_.call([&] { return group_.all_reduce(buffer_of(flags), {.op = ReduceOp::max}); }),
             [this] { return "at the end of its step" + where_(); });
  const auto compared = std::span(flags).subspan(used.size());
  if (differ(compared.first(2 * kNumberBytes))) throw Error(ends_of_several_trainings());
  const auto rest = compared.subspan(2 * kNumberBytes);
  const bool is_known = std::ranges::any_of(rest, [](std::uint8_t byte) { return byte != 0; });
  has_difference_ = is_known && differ(rest);
  return {flags.begin(), flags.begin() + static_cast<std::ptrdiff_t>(used.size())};
}

void StepAgreement::end() {
  has_told_weight_ = false;
  weights_.reset();
  told_weights_ = {};
  compared_ = 0;
  has_difference_ = false;
}

}  // namespace paceline::gradient
