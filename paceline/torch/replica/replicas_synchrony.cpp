// The consensus of replicas, and the change from one synchrony to another.
#include <torch/torch.h>

#include <algorithm>
#include <utility>

#include "paceline/core/base/base.h"
#include "paceline/torch/replica/agreement.h"
#include "paceline/torch/replica/optimizer_mean.h"
#include "paceline/torch/replica/replicas.h"

namespace paceline::parallel {
namespace {

// The precisions without a scale leave the same state behind. `numbers`: null where they do
// nothing.
void require_same_scale(const JsonReader::Json& saved, const Numbers* numbers,
                        const std::string& precision) {
  const bool has_scale = numbers != nullptr && numbers->state().contains("scale");
  const bool had_scale = saved.contains("numbers") && saved.at("numbers").contains("scale");
  if (has_scale == had_scale) return;
  throw_misuse(c10::str("the checkpoint is of a training ", had_scale ? "with" : "without",
                        " fp16 and its scale of the loss, and this one has precision \"", precision,
                        "\""));
}

}  // namespace

void Replicas::require_between_steps(const char* call) const {
  if (!synchrony().in_step() && !synchrony().has_gradients()) return;
  throw_misuse(c10::str("DataParallel::", call,
                        "() was called between backward() and the end of the step: end it first "
                        "with step(optimizer)"));
}

Replicas::Consensus::Consensus(Replicas& replicas) : replicas_(&replicas) {
  replicas.finish();
  replicas.require_between_steps("consensus");
  if (replicas.consensus_ != nullptr)
    throw_misuse("DataParallel::consensus() is in force already: end its guard first");
  if (replicas.synchrony().may_differ()) {
    const at::NoGradGuard no_grad;
    tensors_ = replicas.parts().all();
    for (const at::Tensor& tensor : tensors_) own_values_.push_back(tensor.detach().clone());
  }
  replicas.synchrony().write_consensus();
  gathered_ = replicas.gathered_.lock();
  if (gathered_ == nullptr) gathered_ = replicas.hold_gathered();
  replicas.consensus_ = this;
}

void Replicas::Consensus::end() {
  if (replicas_ == nullptr) return;
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < tensors_.size(); ++i) tensors_[i].copy_(own_values_[i]);
  if (!tensors_.empty()) replicas_->writes_->note();
  gathered_.reset();
  std::exchange(replicas_, nullptr)->consensus_ = nullptr;
}

std::shared_ptr<void> Replicas::gathered() {
  finish();
  require_between_steps("gathered");
  return hold_gathered();
}

std::shared_ptr<void> Replicas::held_whole() {
  if (consensus_ != nullptr) return nullptr;
  return std::make_shared<Consensus>(*this);
}

// It lets go of the parameters when these replicas end, if its holder does not before.
std::shared_ptr<void> Replicas::hold_gathered() {
  auto held = std::make_shared<std::shared_ptr<void>>(synchrony().gathered());
  gathered_ = held;
  return held;
}

void Replicas::change_synchrony(const std::string& text) {
  if (options_.zero_stage > 0) {
    throw_misuse(c10::str("DataParallel::synchrony(\"", text, "\"): zero_stage ",
                          options_.zero_stage, " goes with \"synchronous\" alone"));
  }
  finish();
  require_between_steps("synchrony");
  require_same_settings(*group_, {{"synchrony", text}});
  DataParallelOptions options = options_with(text);
  const bool may_differ = synchrony().may_differ();
  MadeSynchrony made;
  {
    Consensus consensus(*this);  // which gives the replica back if there is no such synchrony
    made = make_synchrony_(parts_, *group_, job_, options);
    consensus.stay();
  }
  let_go_of_synchrony();
  steps_before_ = report_.step;
  options_ = std::move(options);
  begin_synchrony(std::move(made));
  optimizers_may_differ_ = optimizers_may_differ_ || may_differ;
  if (may_differ) equalised_.clear();
  if (updates_) equalise_optimizers(updates_->optimizers());
}

// Schedule and compression are those of the first of two synchronies that follow each other.
DataParallelOptions Replicas::options_with(const std::string& text) const {
  DataParallelOptions options = options_;
  options.synchrony = text;
  if (text == then_) {
    options.schedule = DataParallelOptions().schedule;
    options.compression = DataParallelOptions().compression;
  }
  return options;
}

void Replicas::change_if_due() {
  if (until_step_ > 0 && report_.step >= until_step_) change_synchrony(std::string(then_));
}

// Optimizers with states of their own would let equal replicas drift apart: each takes the mean
// when it steps first. All ranks have the same ones in the same order.
void Replicas::equalise_optimizers(const Optimizers& optimizers) {
  if (!optimizers_may_differ_ || synchrony().may_differ()) return;
  Optimizers left;
  for (torch::optim::Optimizer* const one : optimizers)
    if (equalised_.insert(one).second) left.push_back(one);
  // Messages of gradients may be under way on the training's own group.
  if (!left.empty()) average_optimizers(left, calls_ ? *calls_ : *group_);
}

// --- checkpoints ---------------------------------------------------------------------------------

bool Replicas::may_differ(const at::Tensor& tensor) const {
  const auto is_among = [&](const std::vector<Parameter>& some) {
    return std::ranges::any_of(some,
                               [&](const Parameter& one) { return one.tensor.is_same(tensor); });
  };
  if (is_among(parts_.buffers))
    return options_.buffers == BufferMode::off || synchrony().may_differ();
  return synchrony().may_differ() && (is_among(parts_.dense) || is_among(parts_.sparse));
}

SynchronyState Replicas::state() {
  SynchronyState state = synchrony().state();
  state.values = {{"given", given_synchrony_},
                  {"synchrony", options_.synchrony},
                  {"steps", report_.step},
                  {"state", std::move(state.values)}};
  if (numbers_) state.values["numbers"] = numbers_->state();
  return state;
}

void Replicas::restore(const SavedSynchrony& saved) {
  SavedSynchrony inner = saved;
  try {
    const auto given = saved.values.at("given").get<std::string>();
    if (given != given_synchrony_) {
      throw_misuse(c10::str("the checkpoint is of a training with synchrony \"", given,
                            "\", and this one has \"", given_synchrony_,
                            "\": resume with the same, and change it by "
                            "DataParallel::synchrony() afterwards"));
    }
    require_same_scale(saved.values, numbers_.get(), options_.precision);
    const auto text = saved.values.at("synchrony").get<std::string>();
    if (text != options_.synchrony) {
      DataParallelOptions options = options_with(text);
      MadeSynchrony made = make_synchrony_(parts_, *group_, job_, options);
      let_go_of_synchrony();
      options_ = std::move(options);
      begin_synchrony(std::move(made));
    }
    steps_before_ = saved.values.at("steps").get<std::int64_t>();
    inner.values = saved.values.at("state");
    if (numbers_) numbers_->restore(saved.values.at("numbers"));
  } catch (const JsonReader::Json::exception& error) {
    throw_misuse(c10::str("the saved state is none of a DataParallel (", error.what(), ")"));
  }
  synchrony().restore(inner);
  report_step();
}

}  // namespace paceline::parallel
