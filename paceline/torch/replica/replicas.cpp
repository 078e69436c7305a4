#include "paceline/torch/replica/replicas.h"

#include <torch/torch.h>

#include <cmath>
#include <utility>

#include "paceline/core/base/base.h"
#include "paceline/core/base/stopwatch.h"
#include "paceline/torch/optim/optim.h"
#include "paceline/torch/replica/agreement.h"
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
          {"zero_stage", c10::str(options.zero_stage)},
          {"zero_prefetch", c10::str(options.zero_prefetch)}};
}

// A gradient of 16 bits goes on in its master's type, in which gradients add up and travel.
void widen_gradient(const Parameter& parameter) {
  const at::NoGradGuard no_grad;
  at::Tensor& made = parameter.computed.mutable_grad();
  at::Tensor& sum = parameter.tensor.mutable_grad();
  if (sum.defined()) sum.add_(made);
  else sum = made.to(parameter.tensor.scalar_type());
  made.reset();
}

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
  const bool is_lars = dynamic_cast<const optimizers::LARS*>(&optimizer) != nullptr;
  if (!is_lars && dynamic_cast<const optimizers::LAMB*>(&optimizer) == nullptr) return;
  throw_misuse(c10::str(
      is_lars ? "LARS" : "LAMB",
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
      given_synchrony_(options.synchrony) {
  bind(group, 0);
}

Replicas::~Replicas() {
  if (synchrony_ == nullptr) return;
  try {
    synchrony_->drain();
  } catch (const std::exception&) {  // what ended the communication was told, or will be
  }
}

// --- the group
// ------------------------------------------------------------------------------------

void Replicas::bind(Communicator& group, int root) {
  calls_.reset();
  equalise(parts_, group, root, options_);
  if (numbers_) numbers_->bind(group);
  write_model();
  group_ = &group;
  weight_ = {};
  is_paused_ = false;
  const bool with_buffers = group.size() > 1 && options_.buffers != BufferMode::off;
  buffers_ = std::make_unique<CoalescedTensors>(
      with_buffers ? tensors_of(parts_.buffers) : std::vector<at::Tensor>(), group);
  if (options_.optimizer && updates_ == nullptr)
    updates_ = std::make_unique<OwnUpdates>(options_.optimizer);
  if (updates_) updates_->bind(parts_.trained());
  if (updates_ && parts_.placements.group() != nullptr) {
    for (const auto* optimizer : updates_->optimizers()) require_elementwise(*optimizer);
  }
  if (group.size() > 1) calls_ = group.split(0);
  steps_before_ = 0;
  optimizers_may_differ_ = false;
  begin_synchrony(make_synchrony_(parts_, *group_, job_, options_));
}

void Replicas::begin_synchrony(MadeSynchrony made) {
  synchrony_ = std::move(made.synchrony);
  until_step_ = made.until_step;
  then_ = std::move(made.then);
  hook();
  synchrony_->weigh(weight_);
  synchrony_->pause(is_paused_);
  report_step();
}

void Replicas::hook() {
  const std::vector<Parameter> trained = parts_.trained();
  Synchrony* const synchrony = synchrony_.get();
  hooks_.reserve(trained.size());
  for (std::size_t i = 0; i < trained.size(); ++i) {
    GradientEvents events{[=] { return synchrony->arriving(i); },
                          [=](bool held_elsewhere) { synchrony->arrived(i, held_elsewhere); }};
    if (trained[i].computed.defined()) {
      events.accumulated = [=, parameter = trained[i]](bool) {
        widen_gradient(parameter);
        synchrony->arrived(i, false);
      };
    } else if (options_.born_in_place && group_->size() > 1) {
      events.birthplace = [=] { return synchrony->birthplace(i); };
    }
    hooks_.emplace_back(trained[i].leaf(), std::move(events));
  }
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
  parts_ = std::move(now);
  bind(group, root);
}

// Gradients leave its memory.
void Replicas::let_go_of_synchrony() {
  synchronized_.reset();
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
  if (is_alone || options_.check_replicas_every <= 0 || synchrony().may_differ()) return;
  if (step != 2 && step % options_.check_replicas_every != 0) return;
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
  } catch (const Error&) {
    synchrony().fail(std::current_exception());
    throw;
  }
}

// --- before a step
// --------------------------------------------------------------------------------

void Replicas::weigh(double weight) {
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
        "DataParallel::weight(0) would throw away the gradients that this rank accumulated: a rank "
        "that runs out of batches within a window of backward passes ends the window with what it "
        "has (step(optimizer), its weight that of the window so far), then says weight(0)");
  }
  weight_ = {weight, true};
  synchrony().weigh(weight_);
}

void Replicas::restore_weight(const RankWeight& weight) {
  if (!synchrony_) return;  // after a rebind() that failed there is nothing to restore
  synchronized_.reset();
  weight_ = weight;
  synchrony_->weigh(weight_);
}

void Replicas::pause() {
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
  if (is_in_consensus_) {
    throw_misuse(
        "a step was ended while the model holds the consensus of all replicas: end the guard that "
        "DataParallel::consensus() returned before training goes on");
  }
  EndedStep ended{.not_hooked = not_hooked_parameter(), .unfrozen = unfrozen_parameter()};
  const std::int64_t step = synchrony().report().step + 1;
  // Ranks whose pieces others wait for within a backward pass must not wait before end_step().
  const bool has_pieces = synchrony().pieces() != nullptr;
  if (!has_pieces) check_replicas(step);
  const StepOutcome& outcome = ended.outcome =
      with_remedy([&] { return synchrony().end_step(updates); });
  report_step();
  if (has_pieces && outcome.end != StepEnd::over) check_replicas(step);
  if (outcome.end == StepEnd::under_way) update_at_first_use();
  if (outcome.end != StepEnd::over && !synchrony().may_differ()) {
    if (options_.buffers == BufferMode::broadcast) buffers_->broadcast(*group_, outcome.root);
    if (options_.buffers == BufferMode::average)
      buffers_->average(*group_, outcome.share, outcome.root);
  }
  return ended;
}

void Replicas::report_step() {
  report_ = synchrony().report();
  report_.step += steps_before_;
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

bool Replicas::synchronize() {
  if (numbers_) numbers_->require_scaled();
  synchronized_.reset();
  if (synchrony().may_differ() || until_step_ > 0) {
    throw_misuse(c10::str("DataParallel::synchronize() would end a step whose update synchrony \"",
                          options_.synchrony,
                          "\" has to see: call step(optimizer), which updates and exchanges. "
                          "Gradients are this rank's own, so clip them before it"));
  }
  const EndedStep ended = end_step(nullptr);
  if (numbers_ && ended.outcome.end == StepEnd::gradients)
    is_finite_ = numbers_->unscale(synchrony().leaves());
  refuse(ended);
  synchronized_ = ended.outcome.end;
  return synchronized_ != StepEnd::over;
}

bool Replicas::step(torch::optim::Optimizer& optimizer) {
  if (parts_.placements.group() != nullptr) require_elementwise(optimizer);
  refuse_model_parameters(optimizer);
  if (const std::string complaint = synchrony().complaint_about(optimizer); !complaint.empty())
    throw_misuse(complaint);
  const std::string stranger = stranger_of(optimizer);
  synchrony().steps_by({&optimizer});
  equalise_optimizers({&optimizer});
  bool may_update = true;
  const EndedStep ended = end_gated_step(may_update);
  const StepEnd end = ended.outcome.end;
  const Stopwatch watch;
  if (end == StepEnd::gradients && may_update && ended.is_fine() && stranger.empty())
    optimizer.step();
  if (end == StepEnd::gradients || end == StepEnd::skipped) {
    synchrony().stepped({&optimizer}, watch.seconds());
    report_step();
    end_update(may_update);
  }
  refuse(ended);
  synchronized_ = end;
  if (end == StepEnd::over) return false;
  if (!stranger.empty()) refuse_stranger(stranger);
  change_if_due();
  return true;
}

bool Replicas::step(PrepareOptimizer prepare) {
  if (updates_ == nullptr) {
    throw_misuse(
        "DataParallel::step() without an optimizer needs DataParallelOptions::optimizer, which "
        "makes one for each parameter: set it, or call step(optimizer)");
  }
  finish_updates();  // before the next one's `prepare`
  updates_->prepare(std::move(prepare));
  if (is_gated()) return step_gated_updates();
  const auto before = std::exchange(synchronized_, std::nullopt);
  if (before && !synchrony().has_gradients()) {
    if (before == StepEnd::gradients) {
      const double seconds = updates_->update_all();
      synchrony().stepped(updates_->optimizers(), seconds);
    }
    return before != StepEnd::over;
  }
  const EndedStep ended = end_step(updates_.get());
  refuse(ended);
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

void Replicas::finish() {
  synchrony().rest();
  first_use_.reset();
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
