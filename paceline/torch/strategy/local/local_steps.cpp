#include "paceline/torch/strategy/local/local_steps.h"

#include <torch/torch.h>

#include <utility>

#include "paceline/core/base/base.h"

namespace paceline::strategy {

using namespace gradient;
using namespace replica;
using Json = JsonReader::Json;

LocalSteps::LocalSteps(std::string name, const StrategyContext& context, const MakeMethod& make)
    : LocalGradients(std::move(name), "moves parameters, so gradients do not travel", context),
      replica_(context.parts, context.group, context.options.buffers != BufferMode::off),
      method_(make(replica_)) {}

void LocalSteps::loss(double loss) {
  losses_.push_back({loss, weight().weight});
}

void LocalSteps::begin_step() {
  follow_writes();
  method_->begin_step();
}

void LocalSteps::follow_writes() {
  if (!has_writes()) return;
  const at::NoGradGuard no_grad;
  method_->written();
  writes()->note();
}

StepOutcome LocalSteps::end_step(PerParameterOptimizers* updates) {
  const at::NoGradGuard no_grad;
  begin();
  StepOutcome outcome;
  const bool has_batch = this->has_batch();
  bool is_over = false;
  if (!has_batch && !is_lockstep()) {
    throw_misuse(c10::str("synchrony \"", name(),
                          "\" waits for nobody, so a rank cannot wait for "
                          "the batches of others: weight(0) and join() do not go with it. Let each "
                          "rank end its loop by itself, or deal out the batches by "
                          "paceline::Tickets"));
  }
  for (const ToldLoss& told : losses_) method_->loss(told.loss, told.samples);
  losses_.clear();
  communicating([&] {
    if (!is_lockstep()) return;
    replica_.ledger.tell(weight());
    is_over = !has_batch && !replica_.ledger.any_batch();
  });
  current().total_weight = has_batch ? weight().weight : is_over ? 0 : 1;
  if (is_over) {
    outcome.end = StepEnd::over;
    end(method_->report());
    return outcome;
  }
  outcome.complaint = complaint_of_silence();
  const bool steps = has_batch && outcome.complaint.empty();
  if (steps) communicating([this] { method_->before_update(); });
  outcome.end = steps ? StepEnd::gradients : StepEnd::skipped;
  current().shadows = has_batch ? 0 : 1;
  if (updates != nullptr) {
    const double seconds = steps ? updates->update_all() : 0;
    stepped(updates->optimizers(), seconds);
    if (steps) outcome.end = StepEnd::parameters;
  }
  return outcome;
}

void LocalSteps::stepped(const Optimizers& optimizers, double) {
  const at::NoGradGuard no_grad;
  communicating([&] { method_->after_update(optimizers); });
  method_->report_servers(current());
  end(method_->report());
}

void LocalSteps::quiesce() {
  communicating([this] { method_->quiesce(); });
}

void LocalSteps::write_consensus() {
  const at::NoGradGuard no_grad;
  require_between_steps("consensus");
  communicating([this] {
    follow_writes();
    method_->write_consensus();
  });
}

// --- checkpoints ---------------------------------------------------------------------------------

SynchronyState LocalSteps::state() {
  require_between_steps("state");
  follow_writes();
  MethodState state = method_->state();
  state.values["samples"] = replica_.ledger.samples();
  return {.values = std::move(state.values), .own = packed(state.tensors)};
}

void LocalSteps::restore(const SavedSynchrony& saved) {
  require_between_steps("restore");
  const bool is_same_world = saved.ranks == replica_.group.size();
  unpack_own(saved, method_->state().tensors);
  try {
    if (is_same_world)
      replica_.ledger.restore(saved.values.at("samples").get<std::vector<double>>());
    method_->restore(saved.values, is_same_world);
  } catch (const Json::exception& error) {
    throw_misuse(c10::str("the saved state is none of ", name(), " (", error.what(), ")"));
  }
}

}  // namespace paceline::strategy
