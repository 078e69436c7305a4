#include "paceline/core/checkpoint/save_agreement.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "paceline/core/base/check.h"

namespace paceline::checkpoint {

void SaveAgreement::ask(bool stop) {
  asked_ = std::max(asked_, stop ? 2 : 1);
}

void SaveAgreement::begin() {
  PACELINE_CHECK(is_idle(), "save {} begins while save {} is under way", begun_ + 1, begun_);
  ++begun_;
  stage_ = Stage::writing;
}

void SaveAgreement::wrote(bool well) {
  written_ = begun_;
  if (!well) failed_ = begun_;
}

void SaveAgreement::closed(bool well) {
  over_ = begun_;
  if (!well) failed_ = begun_;
}

SaveAgreement::News SaveAgreement::news() {
  return {std::exchange(asked_, 0), -written_, over_, failed_};
}

SaveAgreement::Decision SaveAgreement::hear(const News& all) {
  const auto [asked, minus_written, over, failed] = all;
  Decision decision{.save = asked > 0, .stop = asked > 1};
  if (stage_ == Stage::writing && -minus_written == begun_) {
    stage_ = Stage::closing;
    decision.close = true;
    decision.failed = failed == begun_;
  } else if (stage_ == Stage::closing && over == begun_) {
    stage_ = Stage::idle;
    decision.over = true;
    decision.failed = failed == begun_;
  }
  return decision;
}

std::vector<int> deal(std::span<const std::uint64_t> bytes, int ranks) {
  std::vector<std::size_t> order(bytes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater(), [&](std::size_t i) { return bytes[i]; });
  std::vector<std::uint64_t> shares(static_cast<std::size_t>(ranks), 0);
  std::vector<int> rank_of(bytes.size());
  for (const std::size_t i : order) {
    const auto least = std::ranges::min_element(shares);
    rank_of[i] = static_cast<int>(least - shares.begin());
    *least += bytes[i];
  }
  return rank_of;
}

}  // namespace paceline::checkpoint
