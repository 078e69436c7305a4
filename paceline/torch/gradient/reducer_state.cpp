// What goes from step to step in a reducer, saved and restored.
#include <torch/torch.h>

#include <utility>

#include "paceline/core/base/base.h"
#include "paceline/core/compress/compress.h"
#include "paceline/torch/gradient/reducer.h"
#include "paceline/torch/replica/agreement.h"

namespace paceline::parallel {
namespace {

// The lines in which all ranks must agree.
std::vector<std::string> lines_of(const TrainingState& state) {
  std::vector<std::string> lines = {"a state saved with " + state.options,
                                    c10::str("saved mean weight ", state.mean_weight)};
  lines.push_back(state.decision ? c10::str("saved order ", state.decision->order) : "no order");
  if (state.decision && state.decision->plan)
    lines.push_back("saved plan " + schedule::json_of(*state.decision->plan));
  if (state.decision && state.decision->choice) {
    const auto& choice = *state.decision->choice;
    lines.push_back(c10::str("saved choice ", choice.offers, ", norms ", choice.norms, ", steps ",
                             choice.steps));
  }
  if (!state.compression.empty()) {
    lines.push_back(c10::str("saved before coded step ",
                             compress::saved_state_of(state.compression).value().step));
  }
  return lines;
}

}  // namespace

void Reducer::require_between_steps(const char* call) const {
  if (failure_) std::rethrow_exception(failure_);
  if (open_) {
    throw_misuse(c10::str("DataParallel::", call,
                          "() was called between backward() and synchronize(): end the step first "
                          "with synchronize() or step(optimizer)"));
  }
}

TrainingState Reducer::state() {
  require_between_steps("save");
  receive_all();
  TrainingState state{.options = schedule_.options(), .ranks = group_.size()};
  if (alone()) return state;
  state.decision = schedule_.decision();
  state.mean_weight = mean_weight_;
  state.compression = carrier_->state();
  return state;
}

void Reducer::require_own(const TrainingState& state) const {
  if (state.compression.empty()) return;
  std::vector<std::size_t> elements;
  for (std::size_t i = 0; i < dense_; ++i)
    elements.push_back(static_cast<std::size_t>(parameters_[i].tensor.numel()));
  const auto saved = compress::saved_state_of(state.compression).value();
  check_fits(saved, group_.rank(), group_.size(), elements).value();
  check_is_of(saved, schedule_.compression()).value();
}

void Reducer::restore(TrainingState state) {
  require_between_steps("load");
  require_own(state);
  if (alone() || dense_ == 0) return;
  require_agreement(group_, lines_of(state));
  mean_weight_ = state.mean_weight;
  const bool goes_on = state.ranks == group_.size() && state.options == schedule_.options();
  if (goes_on && state.decision) go_on_with(schedule_.restore(*state.decision));
  carrier_->restore(std::move(state.compression));
}

}  // namespace paceline::parallel
