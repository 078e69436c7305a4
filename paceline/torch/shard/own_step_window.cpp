#include "paceline/torch/shard/own_step_window.h"

#include <algorithm>

namespace paceline::shard {
namespace {

using Word = OwnStepWindow::Word;
constexpr Word kWaits = 1;     // its own step has not begun
constexpr Word kNew = 2;       // its piece has values that were not gathered
constexpr Word kMayStep = 4;   // its own step may still come, or go on
constexpr Word kReadsNew = 8;  // it reads once and goes on, and its own step has begun

}  // namespace

void OwnStepWindow::open(const std::vector<bool>& has_gradient) {
  awaits_ = has_gradient;
  awaited_ = static_cast<std::size_t>(std::ranges::count(awaits_, true));
  written_ = 0;
  is_new_ = false;
  is_open_ = true;
}

void OwnStepWindow::written(std::size_t leaf) {
  is_new_ = true;
  if (!awaits_[leaf]) return;
  awaits_[leaf] = false;
  ++written_;
}

Word OwnStepWindow::word(Use use) const {
  Word word = 0;
  if (waits()) word |= kWaits;
  if (is_new_) word |= kNew;
  if (may_still_step(use)) word |= kMayStep;
  if (goes_on(use) && written_ > 0) word |= kReadsNew;
  return word;
}

OwnStepWindow::Answer OwnStepWindow::hear(Word all, Use use) {
  const auto has = [all](Word bit) { return (all & bit) != 0; };
  Answer answer{.is_closed = !has(kMayStep)};
  if (answer.is_closed) is_open_ = false;
  else if (has(kWaits) && has(kReadsNew)) return {.is_refused = true};
  else answer.is_repeated = !goes_on(use);
  answer.gathers = has(kNew) && (answer.is_closed || !has(kWaits));
  if (answer.gathers) is_new_ = false;
  return answer;
}

}  // namespace paceline::shard
