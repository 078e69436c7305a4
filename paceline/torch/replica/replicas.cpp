#include "paceline/torch/replica/replicas.h"

#include <torch/torch.h>

#include <atomic>
#include <cmath>
#include <cstdint>
#include <unordered_set>
#include <utility>

#include "paceline/core/base/base.h"
#include "paceline/core/base/own_lines.h"
#include "paceline/core/base/stopwatch.h"
#include "paceline/torch/optim/optim.h"
#include "paceline/torch/replica/agreement.h"
#include "paceline/torch/replica/failed_end.h"
#include "paceline/torch/replica/grads/gradient_elsewhere.h"
#include "paceline/torch/replica/replica_check.h"

namespace paceline::parallel {
namespace {

std::vector<at::Tensor> tensors_of(const std::vector<Parameter>& parameters) {
  std::vector<at::Tensor> tensors;
  for (const Parameter& parameter : parameters) tensors.push_back(parameter.tensor);
  return tensors;
}

std::string name_of(BufferMode mode) {
  switch (mode) {
    case BufferMode::off: return "off";
    case BufferMode::broadcast: return "broadcast";
    case BufferMode::average: return "average";
  }
  return "unknown";
}

// Those that must be the same on all ranks.
std::vector<GivenOption> compared_options(const DataParallelOptions& options) {
  return {{"first_bucket_bytes", c10::str(options.first_bucket_bytes)},
          {"bucket_bytes", c10::str(options.bucket_bytes)},
          {"buffers", name_of(options.buffers)},
          {"static_order", options.static_order ? "true" : "false"},
          {"backward_passes_per_step", c10::str(options.backward_passes_per_step)},
          {"dropout_seed", c10::str(options.dropout_seed)},
          {"check_replicas_every", c10::str(options.check_replicas_every)},
          {"schedule", options.schedule},
          {"compression", options.compression},
          {"aggregate", options.aggregate},
          {"optimizer", options.optimizer ? "given" : "not given"},
          {"synchrony", options.synchrony},
          {"precision", options.precision},
          {"max_grad_norm", c10::str(options.max_grad_norm)},
          {"non_finite", options.non_finite},
          {"non_finite_limit", c10::str(options.non_finite_limit)},
          {"zero_stage", c10::str(options.zero_stage)},
          {"zero_prefetch", c10::str(options.zero_prefetch)}};
}

// A gradient of 16 bits goes on in its master's type, in which gradients add up and travel.
void widen_gradient(const Parameter& parameter, double factor) {
  const at::NoGradGuard no_grad;
  at::Tensor& made = parameter.computed.mutable_grad();
  at::Tensor& sum = parameter.tensor.mutable_grad();
  if (!sum.defined()) {
    sum = made.to(parameter.tensor.scalar_type());
    if (factor != 1) sum.mul_(factor);
  } else if (factor == 1) {
    sum.add_(made);
  } else {
    sum.add_(made.to(sum.scalar_type()), factor);
  }
  made.reset();
}

// A rank waits so long for what others tell of their parameters. The last one to come has heard
// all.
constexpr std::chrono::milliseconds kForTheOthers{100};

// A step that ends in a mismatch mostly means a loop that is shorter on one rank.
template <typename Call>
auto with_remedy(const Call& call) {
  try {
    return call();
  } catch (const Error& error) {
    if (error.fault() != Fault::mismatch) throw;
    Failure failure = error.failure();
    failure.what +=
        ". This rank was in a step: if ranks have different numbers of batches, walk the loader by "
        "parallel.join(loader), which keeps them together";
    throw Error(std::move(failure));
  }
}

// Rank 0 counts the trainings that it begins, so each one of a group has a number of its own.
std::uint64_t agreed_training(Communicator& group) {
  static std::atomic<std::int64_t> begun = 0;
  std::vector<std::int64_t> number = {group.rank() == 0 ? ++begun : 0};
  group.broadcast(buffer_of(number), 0).wait();
  return static_cast<std::uint64_t>(number[0]);
}

// Makes all replicas equal to the root's, after a check that they can be.
void equalise(const ModelParts& parts, Communicator& group, int root,
              const DataParallelOptions& options) {
  if (group.size() == 1) return;
  require_agreement(group, parts.description());
  require_same_settings(group, compared_options(options));
  broadcast_all(parts.all(), group, root);
}

// Norms of shards are not those of the whole tensors, by which these optimizers step.
void require_elementwise(const torch::optim::Optimizer& optimizer) {
  const optimizers::KnownOptimizer* const known = optimizers::known(optimizer);
  if (known == nullptr || known->reach != optimizers::Reach::tensor) return;
  throw_misuse(c10::str(
      known->name,
      " steps by norms of whole parameters, and ranks hold parts of them here: take an optimizer "
      "that treats each element by itself, such as SGD or AdamW"));
}

[[noreturn]] void refuse_stranger(const std::string& stranger) {
  throw_misuse(c10::str(
      stranger,
      " has a gradient of this rank alone, with which the optimizer would let the replicas drift "
      "apart: it was frozen when DataParallel was made, or came to the optimizer later. Unfreeze "
      "before DataParallel is made, or call rebind(group) afterwards; give a parameter that is "
      "not the model's an optimizer of its own; drop a gradient that is left over"));
}

}  // namespace

Replicas::Replicas(ModelParts parts, Communicator& group, Job* job,
                   const DataParallelOptions& options, MakeSynchrony make_synchrony,
                   std::unique_ptr<Numbers> numbers)
    : parts_(std::move(parts)),
      job_(job),
      options_(options),
      make_synchrony_(std::move(make_synchrony)),
      numbers_(std::move(numbers)),
      finite_(options.non_finite, options.non_finite_limit),
      given_synchrony_(options.synchrony) {
  bind(group, 0);
}

Replicas::~Replicas() {
  hide_gradients_of_masters();
  if (noted_) noted_->owner = nullptr;
  life_.reset();
  if (consensus_ != nullptr) consensus_->end();
  if (const auto held = gathered_.lock()) held->reset();
  finish_updates_if_possible();
}

void Replicas::finish_updates_if_possible() {
  if (synchrony_ == nullptr) return;
  try {
    synchrony_->drain();
    compare_at_the_end();
  } catch (const std::exception&) {  // what ended the communication was told, or will be
  }
}

// --- the group
// ------------------------------------------------------------------------------------

void Replicas::bind(Communicator& group, int root) {
  told_.reset();
  calls_.reset();
  equalise(parts_, group, root, options_);
  parts_.training = group.size() > 1 ? agreed_training(group) : 0;
  if (numbers_) numbers_->bind(group);
  write_model();
  group_ = &group;
  thread_ = OwnThread();
  weight_ = {};
  window_ = std::make_unique<WindowWeights>(parts_.trained());
  is_paused_ = false;
  const bool with_buffers = group.size() > 1 && options_.buffers != BufferMode::off;
  buffers_ = std::make_unique<SharedBuffers>(
      with_buffers ? tensors_of(parts_.buffers) : std::vector<at::Tensor>(), group);
  if (options_.optimizer && updates_ == nullptr)
    updates_ = std::make_unique<OwnUpdates>(options_.optimizer);
  if (updates_) updates_->bind(parts_.trained());
  if (updates_ && parts_.placements.group() != nullptr) {
    for (const auto* optimizer : updates_->optimizers()) require_elementwise(*optimizer);
  }
  if (group.size() > 1) calls_ = group.split(0);
  if (calls_ && options_.check_replicas_every > 0) told_ = std::make_unique<ToldReplicas>(*calls_);
  seen_.clear();
  steps_before_ = 0;
  optimizers_may_differ_ = false;
  begin_synchrony(make_synchrony_(parts_, *group_, job_, options_));
}

void Replicas::begin_synchrony(MadeSynchrony made) {
  synchrony_ = std::move(made.synchrony);
  until_step_ = made.until_step;
  then_ = std::move(made.then);
  hook();
  note_gradients();
  writes_ = std::make_unique<ParameterWrites>(parts_.trained_and_frozen());
  synchrony_->follow(*writes_);
  synchrony_->weigh(weight_);
  synchrony_->pause(is_paused_);
  report_step();
}

void Replicas::hook() {
  const std::vector<Parameter> trained = parts_.trained();
  Synchrony* const synchrony = synchrony_.get();
  hooks_.reserve(trained.size());
  for (std::size_t i = 0; i < trained.size(); ++i) {
    GradientEvents events{[this, i] { return arriving(i); },
                          [=](bool held_elsewhere) { synchrony->arrived(i, held_elsewhere); }};
    if (trained[i].computed.defined()) {
      events.arriving = [=, this, parameter = trained[i]] {
        masters_follow_writes();
        if (is_elsewhere(parameter.computed.grad())) parameter.computed.mutable_grad().reset();
        return arriving(i);
      };
      events.accumulated = [=, this, parameter = trained[i]](bool) {
        widen_gradient(parameter, window_->factor());
        synchrony->arrived(i, false);
      };
    } else {
      events.factor = [this] { return window_->factor(); };
      if (options_.born_in_place && group_->size() > 1)
        events.birthplace = [=] { return synchrony->birthplace(i); };
    }
    if ((finite_.looks() && !synchrony->keeps_gradients()) ||
        (numbers_ != nullptr && numbers_->has_scale())) {
      events.accumulated = [this, i, parameter = trained[i],
                            goes_on = std::move(events.accumulated)](bool held_elsewhere) {
        gradient_made(i, parameter);
        goes_on(held_elsewhere);
      };
    }
    hooks_.emplace_back(trained[i].leaf(), std::move(events));
  }
}

bool Replicas::arriving(std::size_t i) {
  // libtorch itself moves passes that are nested deeply.
  if (!thread_.is_here() && !is_nested_backward()) thread_.require("DataParallel::backward");
  if (const auto grown = window_->arriving(i)) {
    weight_ = {*grown, true};
    synchrony_->weigh(weight_);
  }
  return synchrony_->arriving(i);
}

void Replicas::rebind(Communicator& group, int root) {
  if (options_.zero_stage > 0) {
    throw_misuse(c10::str("DataParallel::rebind: with zero_stage ", options_.zero_stage,
                          " the state of each rank is of its own: make another DataParallel"));
  }
  if (root < 0 || root >= group.size()) {
    throw_misuse(
        c10::str("DataParallel::rebind: rank ", root, " is not in a group of ", group.size()));
  }
  if (consensus_ != nullptr) {
    throw_misuse(
        "DataParallel::rebind() was called while the model holds the consensus of all replicas: "
        "end the guard that DataParallel::consensus() returned before");
  }
  finish_updates_if_possible();
  let_go_of_synchrony();
  const std::vector<Parameter> named = parts_.trained_and_frozen();
  std::vector<std::string> sparse;
  for (const Parameter& parameter : parts_.sparse) sparse.push_back(parameter.name);
  read_model();
  ModelParts now = parts_of(named, sparse);
  now.buffers = std::move(parts_.buffers);
  now.placements = std::move(parts_.placements);
  for (Parameter& each : now.dense)
    for (const Parameter& before : named)
      if (each.tensor.is_same(before.tensor)) each.computed = before.computed;
  now.units = std::move(parts_.units);
  now.modules = std::move(parts_.modules);
  parts_ = std::move(now);
  bind(group, root);
}

// Gradients leave its memory.
void Replicas::let_go_of_synchrony() {
  clipping_.reset();
  hide_gradients_of_masters();
  if (noted_) noted_->owner = nullptr;
  synchronized_.reset();
  if (const auto held = gathered_.lock()) held->reset();
  first_use_.reset();
  hooks_.clear();
  synchrony_.reset();
}

Synchrony& Replicas::synchrony() const {
  if (!synchrony_)
    throw_misuse(
        "DataParallel: rebind() failed, so it has no group: call rebind() again, with one that "
        "works");
  return *synchrony_;
}

// Looks at the parameters as the last optimizer step left them; nobody writes to them now. What
// makes replicas differ from the beginning shows after the first step already.
void Replicas::check_replicas(std::int64_t step) {
  const bool is_alone = calls_ == nullptr && parts_.placements.group() == nullptr;
  const bool is_due = std::exchange(check_next_, false);
  if (is_alone || synchrony().may_differ()) return;
  const int every = options_.check_replicas_every;
  if (is_due || (every > 0 && (step == 2 || step % every == 0))) compare_replicas(step, is_due);
}

// `is_due`: because optimizers' states may not have been made equal.
void Replicas::compare_replicas(std::int64_t step, bool is_due) {
  if (synchrony().pieces() == nullptr) synchrony().drain();
  const at::DisableRecordFunctionGuard unseen;  // it is no use of sharded parameters
  const auto all = synchrony().holds_parameters() ? parts_.trained_and_frozen() : parts_.frozen;
  try {
    if (calls_ != nullptr) require_equal_replicas(*calls_, all, step);
    if (Communicator* const group = parts_.placements.group()) {
      std::vector<Parameter> whole = all;
      std::erase_if(whole, [this](const Parameter& each) {
        return !parts_.placements.is_whole(each.tensor);
      });
      require_equal_replicas(*group, whole, step);
    }
  } catch (const Error& error) {
    Failure failure = error.failure();
    if (is_due) {
      failure.what +=
          ". The states of the optimizers were each rank's own since the synchrony was changed: "
          "end the first step after a change by step(optimizer), which takes their mean";
    }
    synchrony().fail(std::make_exception_ptr(Error(failure)));
    throw Error(std::move(failure));
  }
}

bool Replicas::may_compare() const {
  return told_ && report_.step > told_->last_step() && !synchrony_->may_differ() &&
         synchrony_->holds_parameters() && !synchrony_->in_step();
}

std::optional<Failure> Replicas::compared(std::chrono::milliseconds within) {
  const at::DisableRecordFunctionGuard unseen;  // it is no use of sharded parameters
  return told_->compare(parts_.trained_and_frozen(), report_.step, within);
}

void Replicas::see_parameters() {
  if (!told_) return;
  seen_.clear();
  for (const Parameter& each : parts_.dense)
    seen_.emplace_back(each.tensor.storage().unsafeGetStorageImpl(), each.tensor._version());
}

// Whether nobody is seen to have written to the parameters since the last step.
bool Replicas::are_as_seen() const {
  for (std::size_t i = 0; i < seen_.size(); ++i) {
    const at::Tensor& now = parts_.dense[i].tensor;
    if (seen_[i] !=
        std::pair<const void*, std::uint32_t>(now.storage().unsafeGetStorageImpl(), now._version()))
      return false;
  }
  return !seen_.empty();
}

// A program may do with its model what it likes when the training is over: then nothing is told.
void Replicas::compare_at_the_end() {
  if (std::uncaught_exceptions() > 0 || !may_compare() || !are_as_seen()) return;
  const auto difference = compared(kForTheOthers);
  if (!difference) return;
  warn(difference->what +
       ". Nobody asked before the end of the training, as finish() does, so this process ends with "
       "exit code 1");
  fail_at_exit();
}

// --- before a step
// --------------------------------------------------------------------------------

void Replicas::weigh(double weight) {
  thread_.require("DataParallel::weight");
  synchronized_.reset();
  if (!std::isfinite(weight) || weight < 0) {
    throw_misuse(c10::str("DataParallel::weight(", weight,
                          "): a weight is the number of samples of this rank's batch; 0 for none"));
  }
  if (synchrony().in_step()) {
    throw_misuse(
        "DataParallel::weight() was called between backward() and synchronize(): gradients of this "
        "step were weighted already. Call it before the forward pass");
  }
  if (weight == 0 && synchrony().has_gradients()) {
    throw_misuse(
        "DataParallel::weight(0), which a turn of join() without a batch says, would throw away "
        "the gradients that this rank accumulated in a window of backward passes. An early "
        "step(optimizer) closes the window with what there is: let all ranks call it before the "
        "turn in which one has no batch, or hand join() a loader of whole windows, a turn each");
  }
  const bool is_told = options_.zero_stage == 3 && group_->size() > 1;
  if (is_told && weight != weight_.weight && synchrony().has_gradients()) {
    throw_misuse(
        c10::str("DataParallel::weight(", weight,
                 ") was called in a window of backward passes, and with zero_stage 3 ranks "
                 "tell their weights in its first forward pass: say the weight of the "
                 "whole window before that, once"));
  }
  weight_ = {weight, true};
  synchrony().weigh(weight_);
  if (!is_told) window_->say(weight);
}

void Replicas::restore_weight(const RankWeight& weight) {
  if (!synchrony_) return;  // after a rebind() that failed there is nothing to restore
  synchronized_.reset();
  weight_ = weight;
  window_->restart(weight_.weight);
  synchrony_->weigh(weight_);
}

void Replicas::pause() {
  thread_.require("DataParallel::no_sync");
  if (synchrony().in_step()) {
    throw_misuse(
        "DataParallel::no_sync() was called between backward() and synchronize(): end the step "
        "first with synchronize() or step(optimizer)");
  }
  if (is_paused_)
    throw_misuse("DataParallel::no_sync() is already in force: end its guard before the next one");
  is_paused_ = true;
  synchrony().pause(true);
}

void Replicas::resume() {
  is_paused_ = false;
  if (synchrony_) synchrony_->pause(false);
}

// --- the end of a step
// ----------------------------------------------------------------------------

// A rank that complains ends the step with the others before it does.
Replicas::EndedStep Replicas::end_step(OwnUpdates* updates) {
  require_no_consensus();
  is_finite_ = true;
  EndedStep ended{.not_hooked = not_hooked_parameter(), .unfrozen = unfrozen_parameter()};
  masters_follow_writes();
  const bool wrote_late = looked_at_ && *looked_at_ != writes_->stamp();
  const std::int64_t step = synchrony().report().step + 1;
  // Ranks whose pieces others wait for within a backward pass must not wait before end_step().
  const bool has_pieces = synchrony().pieces() != nullptr;
  if (!has_pieces) check_replicas(step);
  const StepOutcome& outcome = ended.outcome =
      with_remedy([&] { return synchrony().end_step(updates); });
  window_->restart(weight_.weight);
  report_step();
  if (wrote_late && ended.outcome.complaint.empty()) {
    ended.outcome.complaint =
        "the program wrote into the model's parameters between backward() and the end of the step, "
        "which takes them from masters of float32: write before the forward pass or after the step";
  }
  if (outcome.rates_differ) require_equal_rates(told_rates_);
  if (outcome.end == StepEnd::under_way) update_at_first_use();
  // Parameters that differ now were written on some ranks alone.
  if (outcome.has_writes && !synchrony().may_differ()) compare_replicas(step);
  else if (has_pieces && outcome.end != StepEnd::over) check_replicas(step);
  if (outcome.end != StepEnd::over && !synchrony().may_differ()) {
    if (options_.buffers == BufferMode::broadcast) buffers_->broadcast(*group_, outcome.root);
    if (options_.buffers == BufferMode::average)
      buffers_->average(*group_, outcome.share, outcome.root);
  }
  return ended;
}

void Replicas::require_no_consensus() const {
  if (consensus_ == nullptr) return;
  throw_misuse(
      "a step was ended while the model holds the consensus of all replicas: end the guard that "
      "DataParallel::consensus() returned before training goes on");
}

// A fingerprint differs also where a rank of sharded parameters has leaves of some rates alone.
// Ranks may have no leaf in common there: they compare groups of equal places too.
void Replicas::require_equal_rates(const Optimizers& optimizers) {
  std::vector<Parameter> leaves = named_leaves();
  if (synchrony().pieces() != nullptr && optimizers.size() == 1) {
    const auto& groups = optimizers.front()->param_groups();
    for (std::size_t g = 0; g < groups.size(); ++g)
      if (!groups[g].params().empty())
        leaves.push_back({c10::str("group ", g, " of ", groups.size()), groups[g].params()[0]});
  }
  try {
    require_same_rates(calls_ ? *calls_ : *group_, leaves, optimizers);
  } catch (const Error&) {
    synchrony().fail(std::current_exception());
    throw;
  }
}

void Replicas::report_step() {
  report_ = synchrony().report();
  report_.step += steps_before_;
  report_.overflowed = report_.overflowed || !is_finite_;
  report_.skipped = finite_.skipped();
}

void Replicas::refuse(const EndedStep& ended) const {
  if (!ended.not_hooked.empty()) {
    throw_misuse(c10::str("parameter '", ended.not_hooked,
                          "' was loaded or converted after DataParallel was made "
                          "(torch::load(model), model.to(dtype), set_data()), so its gradients are "
                          "no longer averaged: load and convert a model before DataParallel is "
                          "made, or call rebind(group) afterwards"));
  }
  if (!ended.outcome.complaint.empty()) throw_misuse(ended.outcome.complaint);
  if (!ended.unfrozen.empty()) {
    throw_misuse(c10::str("parameter '", ended.unfrozen,
                          "' was frozen when DataParallel was made and has a gradient now, of this "
                          "rank alone: unfreeze parameters before DataParallel is made, or call "
                          "rebind(group) afterwards"));
  }
  if (!ended.unscaled.empty()) {
    throw_misuse(c10::str("precision \"", options_.precision,
                          "\" scales the loss, and the gradient of '", ended.unscaled,
                          "' was made by a backward pass that did not: call "
                          "parallel.backward(loss) in place of loss.backward(). The step was left "
                          "out"));
  }
  if (!ended.not_finite.empty()) throw_misuse(ended.not_finite);
  if (!ended.added.empty()) {
    throw_misuse(c10::str("parameter '", ended.added,
                          "' came to the model after DataParallel was made and has a gradient of "
                          "this rank alone, with which the replicas would drift apart: add layers "
                          "before DataParallel is made, or make another one"));
  }
}

std::string Replicas::not_hooked_parameter() const {
  const std::vector<Parameter> trained = parts_.trained();
  for (std::size_t i = 0; i < hooks_.size(); ++i)
    if (!hooks_[i].is_in_force(trained[i].leaf())) return trained[i].name;
  return {};
}

std::string Replicas::unfrozen_parameter() const {
  for (const Parameter& frozen : parts_.frozen)
    if (frozen.tensor.requires_grad() && frozen.tensor.grad().defined()) return frozen.name;
  return {};
}

std::string Replicas::added_parameter() const {
  std::unordered_set<const c10::TensorImpl*> known;
  for (const auto* some : {&parts_.dense, &parts_.sparse, &parts_.frozen})
    for (const Parameter& each : *some) known.insert(each.leaf().unsafeGetTensorImpl());
  for (const ModulePart& part : parts_.modules) {
    const auto module = part.module.lock();
    if (module == nullptr) continue;
    for (const auto& item : module->named_parameters()) {
      const at::Tensor& tensor = item.value();
      if (tensor.grad().defined() && !known.contains(tensor.unsafeGetTensorImpl()))
        return part.name.empty() ? item.key() : part.name + "." + item.key();
    }
  }
  return {};
}

bool Replicas::synchronize(torch::optim::Optimizer* optimizer) {
  thread_.require("DataParallel::synchronize");
  refuse_clipped_parts();
  end_left_out_step();
  if (numbers_) numbers_->require_scaled();
  synchronized_.reset();
  if (synchrony().may_differ() || until_step_ > 0) {
    throw_misuse(c10::str("DataParallel::synchronize() would end a step whose update synchrony \"",
                          options_.synchrony,
                          "\" has to see: call step(optimizer), which updates and exchanges. "
                          "Gradients are this rank's own, so clip them before it"));
  }
  told_rates_.clear();
  if (optimizer != nullptr) tell_rates({optimizer});
  EndedStep ended = end_step(nullptr);
  ended.added = added_parameter();
  // The optimizers of the caller, who steps them, may have states of their own.
  check_next_ = optimizers_may_differ_ && equalised_.empty() && !synchrony().may_differ();
  prepare_gradients(ended);
  if (numbers_ && !ended.is_fine()) is_finite_ ? numbers_->gave_up() : numbers_->ended(false);
  // The caller's optimizer steps the parameters next, unless these follow from what it steps.
  if (synchrony().pieces() == nullptr && masters().empty()) writes_->look_away();
  else writes_->note();
  looked_at_.reset();
  refuse(ended);
  if (ended.outcome.end == StepEnd::gradients) {
    show_gradients_of_masters();
    watch_clipping();
    synchrony().await_own_step();
  }
  synchronized_ = ended.outcome.end;
  return synchronized_ != StepEnd::over;
}

// The training wrote to the parameters until now.
void Replicas::note_update(StepEnd end) {
  looked_at_.reset();
  if (end == StepEnd::under_way) writes_->look_away();
  else writes_->note();
}

void Replicas::leaves_changed() {
  synchrony().leaves_changed();
  writes_->note();
}

bool Replicas::step(torch::optim::Optimizer& optimizer) {
  thread_.require("DataParallel::step");
  refuse_clipped_parts();
  if (parts_.placements.group() != nullptr) require_elementwise(optimizer);
  refuse_model_parameters(optimizer);
  if (const std::string complaint = synchrony().complaint_about(optimizer); !complaint.empty())
    throw_misuse(complaint);
  const std::string stranger = stranger_of(optimizer);
  const std::string second = complaint_of_second(optimizer);
  tell_rates({&optimizer});
  equalise_optimizers({&optimizer});
  if (leaves_out_own_step(nullptr)) return true;
  bool may_update = true;
  EndedStep ended = end_gated_step(may_update);
  if (!second.empty() && !ended.outcome.complaint.empty()) ended.outcome.complaint = second;
  const StepEnd end = ended.outcome.end;
  const Stopwatch watch;
  if (end == StepEnd::gradients && may_update && ended.is_fine() && stranger.empty())
    optimizer.step();
  if (end == StepEnd::gradients || end == StepEnd::skipped) {
    synchrony().stepped({&optimizer}, watch.seconds());
    report_step();
    end_update(may_update);
  }
  note_update(end);
  last_optimizer_ = &optimizer;
  refuse(ended);
  synchronized_ = end;
  see_parameters();
  if (end == StepEnd::over) return false;
  if (!stranger.empty()) refuse_stranger(stranger);
  change_if_due();
  return true;
}

// Why a step to which backward() brought nothing was called, if another optimizer ended the last
// one.
std::string Replicas::complaint_of_second(const torch::optim::Optimizer& optimizer) const {
  const bool is_silent = weight_.weight > 0 && !synchrony().has_gradients();
  if (!is_silent || last_optimizer_ == nullptr || last_optimizer_ == &optimizer) return {};
  const std::string what =
      "step(optimizer) was called with another optimizer than the last time and without a "
      "backward() between them, though the first call ended the step: ";
  if (synchrony().may_differ() || until_step_ > 0) {
    return c10::str(what, "synchrony \"", options_.synchrony,
                    "\" trains one model by one optimizer. Make one of groups of parameters, each "
                    "with options of its own (torch::optim::OptimizerParamGroup)");
  }
  return what +
         "to step several optimizers by the gradients of one backward(), call synchronize(), then "
         "step() of each optimizer itself";
}

void Replicas::tell_rates(Optimizers optimizers) {
  told_rates_ = std::move(optimizers);
  synchrony().steps_by(told_rates_);
}

bool Replicas::step(PrepareOptimizer prepare) {
  thread_.require("DataParallel::step");
  if (updates_ == nullptr) {
    throw_misuse(
        "DataParallel::step() without an optimizer needs DataParallelOptions::optimizer, which "
        "makes one for each parameter: set it, or call step(optimizer)");
  }
  refuse_clipped_parts();
  finish_updates();  // before the next one's `prepare`
  updates_->prepare(std::move(prepare));
  told_rates_ = updates_->optimizers();
  if (leaves_out_own_step(updates_.get())) return true;
  if (is_gated() && !synchrony().keeps_gradients()) return step_gated_updates();
  const auto before = std::exchange(synchronized_, std::nullopt);
  if (before && !synchrony().has_gradients()) {
    if (before == StepEnd::gradients) {
      const double seconds = updates_->update_all();
      synchrony().stepped(updates_->optimizers(), seconds);
    }
    note_update(*before);
    return before != StepEnd::over;
  }
  EndedStep ended = end_step(updates_.get());
  note_update(ended.outcome.end);
  count_overflow(ended);
  refuse(ended);
  see_parameters();
  if (ended.outcome.end == StepEnd::over) return false;
  change_if_due();
  return true;
}

void Replicas::update_at_first_use() {
  first_use_ = std::make_unique<FirstUse>(tensors_of(parts_.dense), [this](std::size_t i) {
    try {
      synchrony().before_use(i);
    } catch (const std::exception&) {  // libtorch would only log it: the next call throws it
      synchrony().fail(std::current_exception());
    }
  });
}

void Replicas::finish_updates() {
  synchrony().drain();
  first_use_.reset();
}

// Ranks that call it together learn here whether they are equal; one that calls it alone waits a
// moment. Who calls it often pays for a check now and then.
void Replicas::finish() {
  synchrony().rest();
  first_use_.reset();
  if (!may_compare()) return;
  constexpr std::int64_t kSteps = 10;
  const std::int64_t last = told_->last_step();
  if (report_.step < last + kSteps && report_.step < 2 * last) return;
  if (const auto difference = compared(kForTheOthers)) {
    synchrony().fail(std::make_exception_ptr(Error(*difference)));
    throw Error(*difference);
  }
}

at::Tensor Replicas::mean(const at::Tensor& value) {
  if (!synchrony().is_lockstep()) {
    throw_misuse(c10::str("DataParallel::mean() asks all ranks, and synchrony \"",
                          options_.synchrony,
                          "\" lets them train without waiting for each other: take another one"));
  }
  const double weight = weight_.weight;
  if (weight > 0 && (!value.defined() || value.numel() != 1)) {
    throw_misuse(
        c10::str("DataParallel::mean() takes one number, such as the loss of this rank's "
                 "batch, and this is ",
                 value.defined() ? describe(value) : "an undefined tensor",
                 ": hand in loss.mean(), or say weight(0) where a rank has no batch"));
  }
  std::vector<double> sums = {weight > 0 ? weight * value.item<double>() : 0, weight};
  const WatchedLane lane(synchrony().watch(), WaitWatch::Lane::calls);
  lane.wait(lane.call([&] { return (calls_ ? *calls_ : *group_).all_reduce(buffer_of(sums)); }),
            [] { return "in DataParallel::mean()"; });
  return at::scalar_tensor(sums[0] / sums[1], at::kDouble);
}

void Replicas::require_own_gradients(const torch::optim::Optimizer& optimizer) const {
  if (const std::string complaint = synchrony().complaint_about(optimizer); !complaint.empty())
    throw_misuse(complaint);
  if (const std::string stranger = stranger_of(optimizer); !stranger.empty())
    refuse_stranger(stranger);
}

std::vector<torch::optim::Optimizer*> Replicas::optimizers() const {
  return updates_ ? updates_->optimizers() : std::vector<torch::optim::Optimizer*>();
}

}  // namespace paceline::parallel
