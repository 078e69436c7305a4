#include "paceline/core/checkpoint/save_agreement.h"

#include <algorithm>
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

}  // namespace paceline::checkpoint
