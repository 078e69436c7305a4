#include "paceline/torch/replica/replicas.h"

#include <c10/util/ScopeExit.h>
#include <torch/torch.h>

#include <cstdint>
#include <utility>

#include "paceline/core/base/base.h"
#include "paceline/core/base/stopwatch.h"
#include "paceline/torch/optimizers/optimizers.h"
#include "paceline/torch/replica/agreement.h"
#include "paceline/torch/replica/consensus.h"
#include "paceline/torch/replica/equality_watch.h"

namespace paceline::replica {
namespace {

// Norms of shards are not those of the whole tensors, by which these optimizers step.
void require_elementwise(const torch::optim::Optimizer& optimizer) {
  const optimizers::KnownOptimizer* const known = optimizers::known(optimizer);
  if (known == nullptr || known->reach != optimizers::Reach::tensor) return;
  throw_misuse(c10::str(
      known->name,
      " steps by norms of whole parameters, and ranks hold parts of them here: take an optimizer "
      "that treats each element by itself, such as SGD or AdamW"));
}

}  // namespace

Replicas::Replicas(ModelParts parts, Communicator& group, Job* job,
                   const DataParallelOptions& options, MakeSynchrony make_synchrony,
                   std::unique_ptr<MixedPrecision> mixed_precision)
    : parts_(std::move(parts)),
      job_(job),
      options_(options),
      make_synchrony_(std::move(make_synchrony)),
      gates_(parts_, job, options, std::move(mixed_precision)),
      equality_(parts_, options.check_replicas_every),
      given_synchrony_(options.synchrony) {
  bind(group, 0);
}

Replicas::~Replicas() {
  hide_gradients_of_masters(parts_);
  leaves_.reset();
  life_.reset();
  if (consensus_ != nullptr) consensus_->end();
  if (const auto held = gathered_.lock()) held->reset();
  finish_updates_if_possible();
}

void Replicas::finish_updates_if_possible() {
  if (synchrony_ == nullptr) return;
  try {
    synchrony_->drain();
    equality_.compare_at_the_end(*synchrony_, report_.step);
  } catch (const std::exception&) {  // what ended the communication was told, or will be
  }
}

// --- the group ---

void Replicas::bind(Communicator& group, int root) {
  equality_.bind(nullptr);
  calls_.reset();
  equalise(parts_, group, root, options_);
  parts_.training = group.size() > 1 ? agreed_training(group) : 0;
  if (MixedPrecision* const precision = gates_.mixed_precision()) precision->bind(group);
  write_model(parts_);
  group_ = &group;
  thread_ = OwnThread();
  weight_.bind(parts_, options_.zero_stage == 3 && group.size() > 1);
  is_paused_ = false;
  const bool with_buffers = group.size() > 1 && options_.buffers != BufferMode::off;
  buffers_ = std::make_unique<SharedBuffers>(
      with_buffers ? tensors_of(parts_.buffers) : std::vector<at::Tensor>(), group);
  if (options_.optimizer && updates_ == nullptr)
    updates_ = std::make_unique<PerParameterOptimizers>(options_.optimizer);
  if (updates_) updates_->bind(parts_.trained());
  if (updates_ && parts_.placements.group() != nullptr) {
    for (const auto* optimizer : updates_->optimizers()) require_elementwise(*optimizer);
  }
  if (group.size() > 1) calls_ = group.split(0);
  equality_.bind(calls_.get());
  gates_.bind(group, calls_.get());
  steps_before_ = 0;
  optimizers_.begin();
  begin_synchrony(make_synchrony_(parts_, *group_, job_, options_));
}

void Replicas::begin_synchrony(MadeSynchrony made) {
  synchrony_ = std::move(made.synchrony);
  until_step_ = made.until_step;
  then_ = std::move(made.then);
  leaves_ = std::make_unique<Leaves>(parts_, *synchrony_);
  gates_.follow(*synchrony_, *leaves_);
  hooks_ = hooks_on(parts_,
                    {.synchrony = *synchrony_,
                     .gates = gates_,
                     .weight = weight_,
                     .arriving = [this](std::size_t i) { return arriving(i); },
                     .master_arriving = [this] { masters_follow_writes(); }},
                    options_.compute_in_place && group_->size() > 1);
  writes_ = std::make_unique<ParameterWrites>(parts_.trained_and_frozen());
  synchrony_->follow(*writes_);
  synchrony_->weigh(weight_.now());
  synchrony_->pause(is_paused_);
  report_step();
}

bool Replicas::arriving(std::size_t i) {
  // libtorch itself moves passes that are nested deeply, and runs those on a device in a thread of
  // that device while the caller of backward() waits.
  if (!thread_.is_here() && !is_nested_backward() && parts_.device().is_cpu())
    thread_.require("DataParallel::backward");
  weight_.arriving(i, *synchrony_);
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
  read_model(parts_);
  parts_.look_again();
  bind(group, root);
}

// Gradients leave its memory.
void Replicas::let_go_of_synchrony() {
  gates_.forget_clipping();
  hide_gradients_of_masters(parts_);
  leaves_.reset();
  synchronized_.reset();
  if (const auto held = gathered_.lock()) held->reset();
  first_use_.reset();
  hooks_.clear();
  synchrony_.reset();
}

const Leaves& Replicas::leaves() const {
  synchrony();
  return *leaves_;
}

Synchrony& Replicas::synchrony() const {
  if (!synchrony_)
    throw_misuse(
        "DataParallel: rebind() failed, so it has no group: call rebind() again, with one that "
        "works");
  return *synchrony_;
}

// --- before a step ---

void Replicas::weigh(double weight) {
  thread_.require("DataParallel::weight");
  synchronized_.reset();
  weight_.say(weight, synchrony());
}

void Replicas::restore_weight(const RankWeight& weight) {
  if (!synchrony_) return;  // after a rebind() that failed there is nothing to restore
  synchronized_.reset();
  weight_.restore(weight, *synchrony_);
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

// --- the end of a step ---

// A rank that complains ends the step with the others before it does.
EndedStep Replicas::end_step(PerParameterOptimizers* updates) {
  require_no_consensus();
  gates_.begin_end();
  EndedStep ended{.not_hooked = not_hooked_parameter(parts_, hooks_),
                  .unfrozen = unfrozen_parameter(parts_)};
  masters_follow_writes();
  const bool wrote_late = looked_at_ && *looked_at_ != writes_->stamp();
  const std::int64_t step = synchrony().report().step + 1;
  // Ranks whose pieces others wait for within a backward pass must not wait before end_step().
  const bool has_pieces = synchrony().pieces() != nullptr;
  if (!has_pieces) equality_.check(synchrony(), step);
  const StepOutcome& outcome = ended.outcome =
      with_remedy([&] { return synchrony().end_step(updates); });
  weight_.restart();
  report_step();
  if (wrote_late && ended.outcome.complaint.empty()) {
    ended.outcome.complaint =
        "the program wrote into the model's parameters between backward() and the end of the step, "
        "which takes them from masters of float32: write before the forward pass or after the step";
  }
  if (outcome.rates_differ) optimizers_.require_equal_rates(synchrony(), leaves(), calls());
  if (outcome.end == StepEnd::under_way) update_at_first_use();
  // Parameters that differ now were written on some ranks alone.
  if (outcome.has_writes && !synchrony().may_differ()) equality_.compare(synchrony(), step);
  else if (has_pieces && outcome.end != StepEnd::over) equality_.check(synchrony(), step);
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

void Replicas::pass_gates(EndedStep& ended) {
  gates_.prepare(ended, report_.step);
  report_step();
}

void Replicas::report_step() {
  report_ = synchrony().report();
  report_.step += steps_before_;
  report_.overflowed = report_.overflowed || !gates_.is_finite();
  report_.skipped = gates_.skipped();
}

bool Replicas::synchronize(torch::optim::Optimizer* optimizer) {
  thread_.require("DataParallel::synchronize");
  gates_.refuse_clipped_parts();
  gates_.end_left_out_step();
  if (const MixedPrecision* const precision = gates_.mixed_precision()) precision->require_scaled();
  synchronized_.reset();
  if (sees_updates()) {
    throw_misuse(c10::str("DataParallel::synchronize() would end a step whose update synchrony \"",
                          options_.synchrony,
                          "\" has to see: call step(optimizer), which updates and exchanges. "
                          "Gradients are this rank's own, so clip them before it"));
  }
  optimizers_.end_step_with({});
  if (optimizer != nullptr) optimizers_.end_step_with({optimizer}, synchrony());
  EndedStep ended = end_step(nullptr);
  ended.added = added_parameter(parts_);
  // The optimizers of the caller, who steps them, may have states of their own.
  equality_.expect_difference(optimizers_.are_unequal() && !synchrony().may_differ());
  pass_gates(ended);
  gates_.give_up(ended);
  // The caller's optimizer steps the parameters next, unless these follow from what it steps.
  if (synchrony().pieces() == nullptr && masters_of(parts_).empty()) writes_->look_away();
  else writes_->note();
  looked_at_.reset();
  ended.refuse(options_.precision);
  if (ended.outcome.end == StepEnd::gradients) {
    show_gradients_of_masters(parts_);
    gates_.watch_clipping();
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

bool Replicas::step(torch::optim::Optimizer& optimizer) {
  thread_.require("DataParallel::step");
  gates_.refuse_clipped_parts();
  if (parts_.placements.group() != nullptr) require_elementwise(optimizer);
  refuse_model_parameters(parts_, optimizer);
  if (const std::string complaint = synchrony().complaint_about(optimizer); !complaint.empty())
    throw_misuse(complaint);
  const std::string stranger = leaves().stranger_of(optimizer);
  const bool is_silent = weight_.counts() && !synchrony().has_gradients();
  const std::string second = is_silent ? optimizers_.complaint_of_second(
                                             optimizer, sees_updates() ? options_.synchrony : "")
                                       : "";
  optimizers_.end_step_with({&optimizer}, synchrony());
  if (!synchrony().may_differ()) optimizers_.equalise({&optimizer}, calls());
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
  optimizers_.stepped(optimizer);
  ended.refuse(options_.precision);
  synchronized_ = end;
  equality_.see_parameters();
  if (end == StepEnd::over) return false;
  if (!stranger.empty()) Leaves::refuse_stranger(stranger);
  change_if_due();
  return true;
}

bool Replicas::step(PrepareOptimizer prepare) {
  thread_.require("DataParallel::step");
  if (updates_ == nullptr) {
    throw_misuse(
        "DataParallel::step() without an optimizer needs DataParallelOptions::optimizer, which "
        "makes one for each parameter: set it, or call step(optimizer)");
  }
  gates_.refuse_clipped_parts();
  finish_updates();  // before the next one's `prepare`
  updates_->prepare(std::move(prepare));
  optimizers_.end_step_with(updates_->optimizers());
  if (leaves_out_own_step(updates_.get())) return true;
  if (gates_.is_gate() && !synchrony().keeps_gradients()) return step_gated_updates();
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
  gates_.count_overflow(ended, report_.step);
  report_step();
  ended.refuse(options_.precision);
  equality_.see_parameters();
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
  synchrony().quiesce();
  first_use_.reset();
  equality_.compare_with_others(synchrony(), report_.step);
}

at::Tensor Replicas::mean(const at::Tensor& value) {
  if (!synchrony().is_lockstep()) {
    throw_misuse(c10::str("DataParallel::mean() asks all ranks, and synchrony \"",
                          options_.synchrony,
                          "\" lets them train without waiting for each other: take another one"));
  }
  return weight_.mean(value, synchrony(), calls());
}

void Replicas::require_own_gradients(const torch::optim::Optimizer& optimizer) const {
  if (const std::string complaint = synchrony().complaint_about(optimizer); !complaint.empty())
    throw_misuse(complaint);
  if (const std::string stranger = leaves().stranger_of(optimizer); !stranger.empty())
    Leaves::refuse_stranger(stranger);
}

// --- gates between gradients and their update ---

void Replicas::backward(const at::Tensor& loss) {
  thread_.require("DataParallel::backward");
  gates_.backward(loss, weight_.counts());
}

double Replicas::clip_grad_norm(double max_norm) {
  synchrony();
  const auto is_over = c10::make_scope_exit([this] { report_step(); });
  return gates_.clip(max_norm, report_.step);
}

// Ends the step, unless synchronize() did, and prepares its gradients.
EndedStep Replicas::end_gated_step(bool& may_update) {
  EndedStep ended;
  const auto before = std::exchange(synchronized_, std::nullopt);
  if (synchrony().has_gradients()) gates_.end_left_out_step();
  const MixedPrecision* const precision = gates_.mixed_precision();
  const bool has_ended =
      precision ? precision->is_unscaled() : before && updates_ && !synchrony().has_gradients();
  if (has_ended) {
    masters_follow_writes();
    if (precision && synchrony().has_gradients()) precision->require_scaled();
    ended.outcome.end = before.value_or(StepEnd::gradients);
  } else {
    ended = end_step(nullptr);
    pass_gates(ended);
  }
  may_update = ended.outcome.end == StepEnd::gradients && gates_.is_finite();
  return ended;
}

void Replicas::end_update(bool has_updated) {
  if (!gates_.mixed_precision()) return;
  hide_gradients_of_masters(parts_);
  gates_.mixed_precision()->ended(has_updated);
  if (has_updated) write_model(parts_);
}

// A step by the optimizers of DataParallelOptions::optimizer.
bool Replicas::step_gated_updates() {
  bool may_update = true;
  synchrony().steps_by(optimizers_.present());
  const EndedStep ended = end_gated_step(may_update);
  const StepEnd end = ended.outcome.end;
  if (end == StepEnd::gradients || end == StepEnd::skipped) {
    double seconds = 0;
    if (may_update && ended.is_fine()) seconds = updates_->update_all();
    else gates_.drop_gradients();
    synchrony().stepped(updates_->optimizers(), seconds);
    report_step();
    end_update(may_update);
  }
  note_update(end);
  ended.refuse(options_.precision);
  synchronized_ = end;
  if (end == StepEnd::over) return false;
  change_if_due();
  return true;
}

// True: the step changes nothing, because a gradient is not finite that has not gone anywhere.
bool Replicas::leaves_out_own_step(PerParameterOptimizers* updates) {
  if (!gates_.looks_at_own_steps()) return false;
  require_no_consensus();
  EndedStep ended;
  if (!gates_.leaves_out_own_step(ended, report_.step + 1, weight_.counts())) return false;
  synchrony().leave_out_step(updates);
  weight_.restart();
  report_step();
  ended.refuse(options_.precision);
  change_if_due();
  return true;
}

// Before the first gradient of a step comes, and where there is none.
void Replicas::masters_follow_writes() {
  if (gates_.mixed_precision() == nullptr || looked_at_) return;
  looked_at_ = writes_->stamp();
  if (!masters_of(parts_).empty() && writes_->any()) read_model(parts_);
}

// --- the synchrony, and the consensus of replicas ---

void Replicas::require_between_steps(const char* call) const {
  if (!synchrony().in_step() && !synchrony().has_gradients()) return;
  throw_misuse(c10::str("DataParallel::", call,
                        "() was called between backward() and the end of the step: end it first "
                        "with step(optimizer)"));
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
  optimizers_.go_on(may_differ);
  if (updates_ && !synchrony().may_differ()) optimizers_.equalise(updates_->optimizers(), calls());
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

// --- checkpoints ---

bool Replicas::may_differ(const at::Tensor& tensor) const {
  if (is_among(parts_.buffers, tensor))
    return options_.buffers == BufferMode::off || synchrony().may_differ();
  return synchrony().may_differ() &&
         (is_among(parts_.dense, tensor) || is_among(parts_.sparse, tensor));
}

SynchronyState Replicas::state() {
  SynchronyState state = synchrony().state();
  state.values = {{"given", given_synchrony_},
                  {"synchrony", options_.synchrony},
                  {"steps", report_.step},
                  {"state", std::move(state.values)}};
  if (gates_.mixed_precision()) state.values["numbers"] = gates_.mixed_precision()->state();
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
    gates_.require_same_scale(saved.values);
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
    if (gates_.mixed_precision()) gates_.mixed_precision()->restore(saved.values.at("numbers"));
  } catch (const JsonReader::Json::exception& error) {
    throw_misuse(c10::str("the saved state is none of a DataParallel (", error.what(), ")"));
  }
  synchrony().restore(inner);
  report_step();
}

}  // namespace paceline::replica
