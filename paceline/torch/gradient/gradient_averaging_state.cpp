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
std::vector<std::string> lines_of(const TrainingState& state, Bytes compression) {
  std::vector<std::string> lines = {"a state saved with " + state.options};
  lines.push_back(state.decision ? c10::str("saved order ", state.decision->order) : "no order");
  if (state.decision && state.decision->plan)
    lines.push_back("saved plan " + schedule::json_of(*state.decision->plan));
  if (state.decision && state.decision->choice) {
    const auto& choice = *state.decision->choice;
    lines.push_back(c10::str("saved choice ", choice.offers, ", norms ", choice.norms, ", steps ",
                             choice.steps));
  }
  if (!compression.empty()) {
    lines.push_back(
        c10::str("saved before coded step ", compress::saved_state_of(compression).value().step));
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

SynchronyState GradientAveraging::state() {
  require_between_steps("state");
  drain();
  TrainingState state{.options = schedule_.options()};
  if (!alone()) state.decision = schedule_.decision();
  return {.values = json_of(state), .own = codec_state()};
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

// The state of compression for this rank of this number of ranks.
std::vector<std::byte> GradientAveraging::own_part_of(const SavedSynchrony& saved) const {
  std::vector<std::byte> own;
  if (saved.ranks == group_.size()) {
    own = saved.own(group_.rank());
  } else {
    std::vector<std::vector<std::byte>> former;
    for (int rank = 0; rank < saved.ranks; ++rank) former.push_back(saved.own(rank));
    own = compress::resharded(former, group_.size(), group_.rank()).value();
  }
  if (own.empty()) return own;
  std::vector<std::size_t> elements;
  for (std::size_t i = 0; i < dense_; ++i)
    elements.push_back(static_cast<std::size_t>(parameters_[i].tensor.numel()));
  const auto state = compress::saved_state_of(own).value();
  check_fits(state, group_.rank(), group_.size(), elements).value();
  check_is_of(state, schedule_.compression()).value();
  return own;
}

// A rank that cannot restore its part tells the others before it throws, so that none waits for it.
void GradientAveraging::restore(const SavedSynchrony& saved) {
  require_between_steps("restore");
  TrainingState state;
  std::vector<std::byte> own;
  std::optional<Error> refusal;
  try {
    state = training_state_of(saved.values);
    own = own_part_of(saved);
  } catch (const Error& error) {
    refusal = error;
  }
  const bool has_peers = !alone() && dense_ > 0;
  if (has_peers) {
    require_agreement(group_, refusal ? std::vector{c10::str("refuses: ", refusal->what())}
                                      : lines_of(state, own));
  }
  if (refusal) throw Error(*refusal);
  if (!has_peers) {
    codec_state_ = std::move(own);
    return;
  }
  // A receiver fixes which gradients travel together.
  const bool goes_on =
      receiver_ == nullptr && saved.ranks == group_.size() && state.options == schedule_.options();
  if (goes_on && state.decision) go_on_with(schedule_.restore(*state.decision));
  restore_codecs(std::move(own));
}

}  // namespace paceline::parallel
