#include "paceline/torch/strategy/local/local_steps.h"

#include <torch/torch.h>

#include <cstring>
#include <utility>

#include "paceline/core/base/base.h"
#include "paceline/torch/bridge/bridge.h"

namespace paceline::strategy {

using namespace parallel;
using Json = JsonReader::Json;

namespace {

// Options that say how gradients travel mean nothing where they do not.
void require_fitting(const std::string& name, const DataParallelOptions& options) {
  const DataParallelOptions standard;
  const auto refuse = [&](const char* option, const std::string& value) {
    throw_misuse(c10::str("synchrony \"", name,
                          "\" moves parameters, so gradients do not travel and ", option, " \"",
                          value,
                          "\" has nothing to do: leave it out, or take "
                          "synchrony \"synchronous\""));
  };
  if (options.compression != standard.compression) refuse("compression", options.compression);
  if (options.schedule != standard.schedule) refuse("schedule", options.schedule);
}

}  // namespace

LocalSteps::LocalSteps(std::string name, const StrategyContext& context, const MakeMethod& make)
    : name_((require_fitting(name, context.options), std::move(name))),
      parameters_(context.parts.trained()),
      replica_(context.parts, context.group, context.options.buffers != BufferMode::off),
      method_(make(replica_)),
      watch_(parameters_) {}

std::vector<at::Tensor> LocalSteps::leaves() const {
  std::vector<at::Tensor> leaves;
  for (const Parameter& parameter : parameters_) leaves.push_back(parameter.tensor);
  return leaves;
}

// A failure of the communication is final: all later calls throw it.
template <typename Call>
void LocalSteps::communicating(const Call& call) {
  if (failure_) std::rethrow_exception(failure_);
  try {
    call();
  } catch (const Error&) {
    failure_ = std::current_exception();
    throw;
  }
}

void LocalSteps::begin() {
  if (std::exchange(has_begun_, true)) return;
  communicating([this] { method_->begin_step(); });
}

bool LocalSteps::arriving(std::size_t) {
  if (failure_) std::rethrow_exception(failure_);
  if (const int backward = current_backward(); backward != std::exchange(backward_, backward)) {
    if (const std::string changed = watch_.changed_parameter(); !changed.empty()) {
      throw_misuse(c10::str("parameter '", changed,
                            "' changed after its gradient was made and "
                            "before the step ended, so ",
                            name_,
                            " does not know of that step: "
                            "call parallel.step(optimizer) instead of optimizer.step()"));
    }
    begin();
  }
  return weight_.weight > 0;
}

void LocalSteps::arrived(std::size_t i, bool) {
  ++current_.gradients;
  watch_.gradient_made(i);
}

void LocalSteps::loss(double loss) {
  method_->loss(loss, weight_.weight);
}

StepOutcome LocalSteps::end_step(OwnUpdates* updates) {
  const at::NoGradGuard no_grad;
  begin();
  StepOutcome outcome;
  const bool has_batch = weight_.weight > 0;
  bool is_over = false;
  if (!has_batch && !is_lockstep()) {
    throw_misuse(c10::str("synchrony \"", name_,
                          "\" waits for nobody, so a rank cannot wait for "
                          "the batches of others: weight(0) and join() do not go with it. Let each "
                          "rank end its loop by itself, or deal out the batches by "
                          "paceline::Tickets"));
  }
  communicating([&] {
    if (!is_lockstep()) return;
    replica_.ledger.tell(weight_);
    is_over = !has_batch && !replica_.ledger.any_batch();
  });
  current_.total_weight = has_batch ? weight_.weight : is_over ? 0 : 1;
  if (is_over) {
    outcome.end = StepEnd::over;
    end();
    return outcome;
  }
  if (has_batch && current_.gradients == 0) {
    outcome.complaint =
        "this rank made no gradient in this step, though its weight says that it has a batch: call "
        "backward() before step(); a rank without a batch says weight(0)";
  }
  const bool steps = has_batch && outcome.complaint.empty();
  if (steps) communicating([this] { method_->before_update(); });
  outcome.end = steps ? StepEnd::gradients : StepEnd::skipped;
  current_.shadows = has_batch ? 0 : 1;
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
  end();
}

void LocalSteps::end() {
  has_begun_ = false;
  backward_ = -1;
  watch_.forget();
  current_.step = report_.step + 1;
  current_.exchange = method_->report();
  report_ = std::exchange(current_, {});
}

void LocalSteps::write_consensus() {
  const at::NoGradGuard no_grad;
  require_between_steps("consensus");
  communicating([this] { method_->write_consensus(); });
}

void LocalSteps::require_between_steps(const char* call) const {
  if (failure_) std::rethrow_exception(failure_);
  if (has_gradients()) {
    throw_misuse(c10::str("DataParallel::", call,
                          "() was called between backward() and step(optimizer): end the step "
                          "first"));
  }
}

// --- checkpoints ---------------------------------------------------------------------------------

SynchronyState LocalSteps::state() {
  require_between_steps("state");
  MethodState state = method_->state();
  state.values["samples"] = replica_.ledger.samples();
  std::vector<std::byte> own(packed_bytes(state.tensors));
  pack(state.tensors, own);
  return {.values = std::move(state.values), .own = std::move(own)};
}

void LocalSteps::restore(const SavedSynchrony& saved) {
  require_between_steps("restore");
  const int rank = replica_.group.rank() % saved.ranks;
  const bool is_same_world = saved.ranks == replica_.group.size();
  const std::vector<at::Tensor> tensors = method_->state().tensors;
  const std::vector<std::byte> own = saved.own(rank);
  if (own.size() != packed_bytes(tensors)) {
    throw_misuse(c10::str("the saved state of rank ", rank, " has ", own.size(), " bytes, and ",
                          name_, " of this model keeps ", packed_bytes(tensors),
                          ": resume with the synchrony and the model that it was saved with"));
  }
  unpack(own, tensors);
  try {
    if (is_same_world)
      replica_.ledger.restore(saved.values.at("samples").get<std::vector<double>>());
    method_->restore(saved.values, is_same_world);
  } catch (const Json::exception& error) {
    throw_misuse(c10::str("the saved state is none of ", name_, " (", error.what(), ")"));
  }
}

}  // namespace paceline::strategy
