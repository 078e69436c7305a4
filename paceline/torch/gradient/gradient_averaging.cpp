#include "paceline/torch/gradient/gradient_averaging.h"

#include <torch/torch.h>

#include <algorithm>
#include <span>
#include <utility>

#include "paceline/core/base/base.h"
#include "paceline/torch/bridge/bridge.h"
#include "paceline/torch/gradient/make_means.h"
#include "paceline/torch/gradient/sparse_gradients.h"
#include "paceline/torch/replica/agreement.h"
#include "paceline/torch/replica/grads/gradient_note.h"

namespace paceline::gradient {
namespace {

bool travels_whole(const Means* means, std::size_t dense, const Communicator& group) {
  return means == nullptr && dense > 0 && group.size() > 1;
}

}  // namespace

std::unique_ptr<replica::Synchrony> make_gradient_averaging(const replica::ModelParts& parts,
                                                            Communicator& group, Job* job,
                                                            const DataParallelOptions& options) {
  return std::make_unique<GradientAveraging>(parts, group, job, options);
}

GradientAveraging::GradientAveraging(const replica::ModelParts& parts, Communicator& group,
                                     Job* job, const DataParallelOptions& options, Means* means)
    : parameters_(parts.trained()),
      dense_(parts.dense.size()),
      group_(group),
      step_{.weight = {},
            .facts = StepAgreement(group, parts.training),
            .passes = Passes(parameters_, options.backward_passes_per_step),
            .figures = StepFigures(parts.dense, group, job),
            .failure = {}},
      path_(std::make_unique<ScheduledPath>(std::span(parameters_).first(dense_), group, job,
                                            options, travels_whole(means, dense_, group),
                                            [this] { incoming_.drain(); })),
      own_means_(means != nullptr
                     ? nullptr
                     : make_means(travels_whole(means, dense_, group), *path_, job, parameters_)),
      means_(means != nullptr ? *means : *own_means_),
      outgoing_(parameters_, dense_, group, means_, step_),
      incoming_(parameters_, dense_, means_, outgoing_, step_) {}

GradientAveraging::~GradientAveraging() {
  drop_gradients_elsewhere();
  outgoing_.let_go(!open_);  // in the middle of a step they mean nothing
  path_.reset();             // it may use the buckets' memory until it has ended
}

std::vector<at::Tensor> GradientAveraging::leaves() const {
  std::vector<at::Tensor> leaves;
  for (const replica::Parameter& parameter : parameters_) leaves.push_back(parameter.tensor);
  return leaves;
}

// --- the gradients of a step ---

bool GradientAveraging::arriving(std::size_t i) {
  step_.failure.rethrow();
  if (is_dense(i)) replica::drop_if_elsewhere(parameters_[i].tensor);
  step_.passes.arriving(i, open_);
  const bool is_sent = !step_.passes.are_accumulating();
  if (is_sent && !open_) begin();
  if (step_.weight.weight != 0) return true;
  // A shadow's gradient counts for nothing: grad stays as on the ranks that ran no backward at all.
  // But it keeps the order of messages, in which layers that communicate within backward may stand.
  if (is_sent && outgoing_.has(i)) {
    const at::NoGradGuard no_grad;
    outgoing_.fill_without_gradient(i);
    outgoing_.send_full();
  }
  return false;
}

std::shared_ptr<void> GradientAveraging::gradient_memory(std::size_t i) {
  if (!outgoing_.has(i) || !step_.passes.will_send(i) || step_.weight.weight == 0 ||
      step_.passes.has_filled(i) || path_->next_layout())
    return nullptr;
  return outgoing_.gradient_memory(i);
}

void GradientAveraging::arrived(std::size_t i, bool held_elsewhere) {
  if (step_.passes.are_accumulating()) {
    step_.passes.accumulated(i);
    step_.figures.pass_accumulated();
    return;
  }
  const at::NoGradGuard no_grad;
  if (is_dense(i)) step_.passes.require_dense(i);
  ++step_.figures.current().gradients;
  if (is_dense(i)) step_.figures.arrived(i);
  if (outgoing_.has(i)) outgoing_.claim_slot(i, held_elsewhere);
  step_.passes.made(i);
  if (outgoing_.has(i)) outgoing_.filled(i);
  outgoing_.send_full();
}

// The layout changes when the next step begins: by then its gradients are usually dropped.
void GradientAveraging::begin() {
  open_ = true;
  drop_gradients_elsewhere();
  incoming_.drain();
  if (path_->next_layout()) {
    path_->take_next_layout();
    outgoing_.lay_out_anew();
    incoming_.lay_out_anew();
  }
  outgoing_.begin_step();
  tell_weight();
  if (step_.facts.told() != step_.weight) {
    throw_misuse(
        "DataParallel::weight() was called after the forward pass of this step had begun, when "
        "ranks with sharded parameters have told their weights already: call it before");
  }
}

void GradientAveraging::tell_weight() {
  step_.failure.rethrow();
  if (step_.facts.has_told_weight()) return;
  const bool has_written = writes_ != nullptr && writes_->any();
  step_.failure.communicating([&] { step_.facts.tell_weight(step_.weight, has_written); });
}

// --- the end of a step ---

void GradientAveraging::steps_by(const replica::Optimizers& optimizers) {
  step_.facts.compare(replica::fingerprint_of_rates(optimizers));
}

replica::StepOutcome GradientAveraging::end_step(replica::PerParameterOptimizers* updates) {
  step_.failure.rethrow();
  if (step_.passes.is_paused())
    throw_misuse(
        "DataParallel::synchronize() under no_sync(): end its guard before the last backward() of "
        "the window");
  const at::NoGradGuard no_grad;
  const std::string touched = step_.passes.complaint();
  if (!open_) begin();  // no gradient did
  if (updates != nullptr) steps_by(updates->optimizers());
  replica::StepOutcome outcome = step_.failure.communicating([&] { return collect(updates); });
  outcome.complaint = touched;
  if (touched.empty() && outcome.end != replica::StepEnd::over &&
      step_.figures.current().used == 0) {
    outcome.complaint =
        "no rank made a gradient in this step, though their weights say that there were batches: "
        "call backward() before synchronize() or step(); after synchronize() call "
        "optimizer.step() itself; a rank without a batch says weight(0)";
  }
  const bool steps = outcome.complaint.empty() && updates != nullptr;
  if (outcome.end == replica::StepEnd::gradients && steps) {
    const double seconds = updates->update_all();
    stepped(updates->optimizers(), seconds);
    outcome.end = replica::StepEnd::parameters;
  }
  if (outcome.end == replica::StepEnd::under_way && steps) updates->update_from(dense_);
  report(outcome);
  step_.failure.communicating([this] { path_->end_step(std::move(step_.figures.observed())); });
  open_ = false;
  outgoing_.end_step();
  step_.facts.end();
  step_.passes.end_step();
  step_.figures.begin_next();
  return outcome;
}

// Sends the buckets that are left. Then it waits for the means and hands them out, or returns while
// they are on their way.
replica::StepOutcome GradientAveraging::collect(replica::PerParameterOptimizers* updates) {
  const StepWeights weights = step_.weights_of_all();
  replica::StepOutcome outcome{.root = weights.root, .has_writes = weights.has_writes};
  if (weights.total == 0) {
    outcome.end = replica::StepEnd::over;
    return outcome;
  }
  outcome.share = weights.share(group_.rank());
  outgoing_.send_the_rest();
  std::vector<bool> used = step_.used_by_any();
  outcome.rates_differ = step_.facts.has_difference();
  average_sparse(group_, std::span(parameters_).subspan(dense_),
                 {used.begin() + static_cast<std::ptrdiff_t>(dense_), used.end()}, weights);
  if (updates != nullptr && means_.layout().plan.crosses_barrier) {
    incoming_.let_come(std::move(used), *updates);
    drop_gradients(dense_);
    outcome.end = replica::StepEnd::under_way;
  } else if (!incoming_.publish(used)) {
    drop_gradients(parameters_.size());
    outcome.end = replica::StepEnd::skipped;
  }
  return outcome;
}

void GradientAveraging::stepped(const replica::Optimizers&, double seconds) {
  drop_gradients_elsewhere();
  step_.figures.updated(seconds);
}

void GradientAveraging::report(const replica::StepOutcome& outcome) {
  StepReport& current = step_.figures.current();
  path_->report(current);
  current.gradient_memory = static_cast<double>(outgoing_.take_peak_bytes());
  step_.figures.report(outcome.end, means_.layout().groups);
  // Across the barrier a forward pass has updates and waits in it.
  if (!means_.layout().plan.crosses_barrier)
    step_.figures.record(step_.weight, step_.passes.number());
}

// The first ones: the dense, or all.
void GradientAveraging::drop_gradients(std::size_t parameters) {
  for (std::size_t i = 0; i < parameters; ++i) parameters_[i].tensor.mutable_grad().reset();
}

// Autograd, and what this rank contributes to the next step, must not find them.
void GradientAveraging::drop_gradients_elsewhere() {
  for (std::size_t i = 0; i < dense_; ++i) replica::drop_if_elsewhere(parameters_[i].tensor);
}

// --- checkpoints ---

void GradientAveraging::require_between_steps(const char* call) const {
  step_.failure.rethrow();
  if (open_) {
    throw_misuse(c10::str("DataParallel::", call,
                          "() was called between backward() and synchronize(): end the step first "
                          "with synchronize() or step(optimizer)"));
  }
}

replica::SynchronyState GradientAveraging::state() {
  require_between_steps("state");
  incoming_.drain();
  return path_->state();
}

void GradientAveraging::restore(const replica::SavedSynchrony& saved) {
  require_between_steps("restore");
  path_->restore(saved);
}

}  // namespace paceline::gradient
