// Saves and restores the state that gradient averaging keeps from step to step.
#include <torch/torch.h>

#include <utility>

#include "paceline/core/base/base.h"
#include "paceline/core/compress/compress.h"
#include "paceline/torch/gradient/gradient_averaging.h"
#include "paceline/torch/replica/agreement.h"

namespace paceline::parallel {
namespace {

// The lines in which all ranks must agree.
std::vector<std::string> lines_of(const TrainingState& state) {
  std::vector<std::string> lines = {"a state saved with " + state.options};
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

void GradientAveraging::require_between_steps(const char* call) const {
  if (failure_) std::rethrow_exception(failure_);
  if (open_) {
    throw_misuse(c10::str("DataParallel::", call,
                          "() was called between backward() and synchronize(): end the step first "
                          "with synchronize() or step(optimizer)"));
  }
}

void GradientAveraging::save(torch::serialize::OutputArchive& archive) {
  require_between_steps("save");
  drain();
  TrainingState state{.options = schedule_.options(), .ranks = group_.size()};
  if (!alone()) {
    state.decision = schedule_.decision();
    state.compression = codec_state();
  }
  write(archive, state);
}

// A path that does not compress has no place for what an earlier one kept.
std::vector<std::byte> GradientAveraging::codec_state() {
  const GradientLayout& layout = next_layout_ ? *next_layout_ : layout_;
  if (path_ == nullptr || !layout.compresses()) return codec_state_;
  return path_->state(layout.parameters());
}

void GradientAveraging::restore_codecs(std::vector<std::byte> state) {
  const GradientLayout& layout = next_layout_ ? *next_layout_ : layout_;
  if (!layout.compresses()) codec_state_ = std::move(state);
  else if (!state.empty()) path_->restore(state, layout.parameters());
}

void GradientAveraging::require_own(const TrainingState& state) const {
  if (state.compression.empty()) return;
  std::vector<std::size_t> elements;
  for (std::size_t i = 0; i < dense_; ++i)
    elements.push_back(static_cast<std::size_t>(parameters_[i].tensor.numel()));
  const auto saved = compress::saved_state_of(state.compression).value();
  check_fits(saved, group_.rank(), group_.size(), elements).value();
  check_is_of(saved, schedule_.compression()).value();
}

void GradientAveraging::load(torch::serialize::InputArchive& archive) {
  TrainingState state = read_training_state(archive);
  require_between_steps("load");
  require_own(state);
  if (alone() || dense_ == 0) return;
  require_agreement(group_, lines_of(state));
  const bool goes_on = state.ranks == group_.size() && state.options == schedule_.options();
  if (goes_on && state.decision) go_on_with(schedule_.restore(*state.decision));
  restore_codecs(std::move(state.compression));
}

}  // namespace paceline::parallel
