#include "paceline/torch/shard/sharded_averaging.h"

#include <torch/torch.h>

#include <exception>
#include <utility>

#include "paceline/core/base/base.h"
#include "paceline/torch/shard/sharding_refusals.h"

namespace paceline::shard {

using gradient::GradientAveraging;
using Lane = replica::WaitWatch::Lane;

std::unique_ptr<replica::Synchrony> make_sharded_averaging(const replica::ModelParts& parts,
                                                           Communicator& group, Job* job,
                                                           const DataParallelOptions& options) {
  require_shardable(parts, options);
  if (group.size() == 1) return gradient::make_gradient_averaging(parts, group, job, options);
  return std::make_unique<ShardedAveraging>(parts, group, job, options);
}

namespace {

replica::ParameterPieces pieces_of(const UnitMemory& memory, Communicator& ranks) {
  replica::ParameterPieces pieces{.ranks = &ranks};
  for (const Leaf& leaf : memory.leaves()) {
    const auto begin = leaf.segment.place / leaf.tensor.element_size();
    pieces.own.push_back({leaf.segment.parameter, static_cast<std::int64_t>(begin), leaf.tensor});
  }
  return pieces;
}

}  // namespace

ShardedAveraging::ShardedAveraging(const replica::ModelParts& parts, Communicator& group, Job* job,
                                   const DataParallelOptions& options)
    : stage_(options.zero_stage),
      parameters_(parts.dense),
      lane_(group.split(0)),
      gather_lane_(group.split(0)),
      watch_(stage_ == 3 ? std::make_unique<replica::WaitWatch>(*gather_lane_) : nullptr),
      units_(Units::of(parts, group.size(), options)),
      memory_(units_, parts, *gather_lane_, /*stays_whole=*/stage_ < 3),
      lane_of_gathers_(watch_.get(), Lane::gathers),
      gathers_(units_, memory_, *gather_lane_, lane_of_gathers_,
               /*stay_whole=*/stage_ < 3, options.zero_prefetch, facts()),
      pieces_(units_, *lane_, {watch_.get(), Lane::pieces}, wire_of(options.compression),
              /*keeps_memory=*/stage_ == 1, parameters_, memory_.leaves(),
              [this] { communicating([this] { gathers_.take_part_in_rest(); }); }),
      leaf_pieces_(pieces_of(memory_, *lane_)),
      averaging_(std::make_unique<GradientAveraging>(parts, group, job, options, &pieces_)),
      uses_(std::make_unique<StorageUses>(
          memory_.storages(), [this](const std::vector<std::size_t>& units) { used(units); })) {
  averaging_->watch_facts({watch_.get(), Lane::facts}, [this] { return gathers_.last_use(); });
  leaf_writes_ =
      std::make_unique<TensorWrites>(leaves(), [this](std::size_t leaf) { leaf_written(leaf); });
}

GatherFacts ShardedAveraging::facts() {
  return {.has_shadows = [this] { return averaging_->has_shadows(); },
          .tell_reading = [this](std::size_t unit) { return averaging_->tell_reading(unit); },
          .wait_for_reading = [this](const auto& told) { averaging_->wait_for_reading(told); }};
}

ShardedAveraging::~ShardedAveraging() {
  uses_.reset();
  leaf_writes_.reset();
  averaging_.reset();
  pieces_.release();  // whole parameters take their place
  if (has_failed_ || std::uncaught_exceptions() > 0) return;
  try {
    settle_own_step(OwnStepWindow::Use::end);
    gathers_.hold(true);
  } catch (const std::exception&) {  // parameters stay without memory, which libtorch tells
  }
}

// Another rank's gather may have ended this rank's call.
template <typename Call>
decltype(auto) ShardedAveraging::explaining(const Call& call) {
  try {
    return call();
  } catch (const Error& error) {
    Failure failure = error.failure();
    gathers_.explain(failure);
    if (failure.what == error.failure().what) throw;
    throw Error(std::move(failure));
  }
}

template <typename Call>
void ShardedAveraging::communicating(const Call& call) {
  try {
    explaining(call);
  } catch (const Error&) {
    fail(std::current_exception());
    throw;
  }
}

void ShardedAveraging::fail(std::exception_ptr failure) {
  has_failed_ = true;
  averaging_->fail(std::move(failure));
}

// libtorch runs an operator on these units next. It would only log what is thrown here: the next
// call throws it.
void ShardedAveraging::used(const std::vector<std::size_t>& units) {
  if (gathers_.is_held()) return;  // and is no part of a step
  const bool in_backward = current_backward() >= 0,
             in_training = at::GradMode::is_enabled() || in_backward;
  const at::NoGradGuard no_grad;
  try {
    explaining([&] {
      if (window_.is_open()) {
        settle_own_step(in_backward   ? OwnStepWindow::Use::end
                        : in_training ? OwnStepWindow::Use::forward
                                      : OwnStepWindow::Use::evaluation);
      }
      begin_use(units, in_training, in_backward);
    });
  } catch (const std::exception&) {
    fail(std::current_exception());
    gathers_.poison(units);
  }
}

// A read before the caller's own step is no part of a pass.
void ShardedAveraging::begin_use(const std::vector<std::size_t>& units, bool in_training,
                                 bool in_backward) {
  in_training = in_training && !window_.is_open();
  const bool begins_pass = in_training && !in_backward && is_in_backward_;
  if (in_training) is_in_backward_ = in_backward;
  const UnitUse use = in_training ? UnitUse::training : UnitUse::evaluation;
  if (!begins_pass && gathers_.are_ready(units, use)) return;
  if (begins_pass) gathers_.begin_pass();
  if (stage_ == 3 && in_training) averaging_->tell_weight();
  gathers_.begin(units, use);
}

// A step gives this rank's pieces new values from here on, and whole units still have the old ones.
void ShardedAveraging::leaf_written(std::size_t leaf) {
  bool is_whole = false;
  for (std::size_t u = 0; u < units_.size(); ++u) {
    if (!memory_.is_whole(u)) continue;
    is_whole = true;
    if (window_.is_open()) memory_.hide(u);
  }
  if (window_.is_open()) window_.written(leaf);
  else if (is_whole && late_leaf_ < 0) late_leaf_ = static_cast<int>(leaf);
}

// The step has ended; the caller's optimizers, or stepped(), take its gradients next.
void ShardedAveraging::open_window() {
  std::vector<bool> has_gradient;
  for (const Leaf& leaf : memory_.leaves()) has_gradient.push_back(leaf.tensor.grad().defined());
  window_.open(has_gradient);
}

// Returns when this rank may go on, by old values or by gathered ones.
void ShardedAveraging::settle_own_step(OwnStepWindow::Use use) {
  if (stage_ == 3) gathers_.end_evaluation();  // the step may have changed it
  OwnStepWindow::Answer answer{.is_repeated = window_.is_open()};
  while (answer.is_repeated) {
    std::vector<OwnStepWindow::Word> word = {window_.word(use)};
    lane_of_gathers_.wait(lane_of_gathers_.call([&] {
      return gather_lane_->all_reduce(buffer_of(word), {.op = ReduceOp::bor});
    }),
                          [] { return "to read the model after synchronize()"; });
    answer = window_.hear(word[0], use);
    if (answer.is_refused) {
      throw_misuse(
          "the model was read on one rank after its own optimizer had stepped, and on another one "
          "before: between synchronize() and the last optimizer's own step(), all ranks must read "
          "the model at the same place");
    }
    if (stage_ == 3) continue;
    if (answer.gathers) {
      gathers_.forget();
      gathers_.start_all();
      if (!answer.is_closed) gathers_.wait_for_all();  // pieces may still change
      continue;
    }
    for (std::size_t u = 0; u < units_.size(); ++u) memory_.show(u);
  }
}

void ShardedAveraging::make_all_whole() {
  gathers_.start_all();
  gathers_.wait_for_all();
}

bool ShardedAveraging::arriving(std::size_t i) {
  const bool counts = explaining([&] { return averaging_->arriving(i); });
  if (!counts) gradient_made(i);
  return counts;
}

void ShardedAveraging::arrived(std::size_t i, bool held_elsewhere) {
  explaining([&] { averaging_->arrived(i, held_elsewhere); });
  gradient_made(i);
}

// A gradient that does not count is made too: units come and go in the same order on all ranks.
void ShardedAveraging::gradient_made(std::size_t i) {
  if (stage_ < 3) return;
  if (const int now = current_backward(); now != backward_) {
    backward_ = now;
    left_.clear();
    for (const Unit& unit : units_.all()) left_.push_back(unit.parameters.gradients.size());
  }
  const std::size_t unit = units_.unit_of(i);
  if (--left_[unit] == 0) communicating([&] { gathers_.finished(unit); });
}

replica::StepOutcome ShardedAveraging::end_step(replica::PerParameterOptimizers*) {
  if (gathers_.is_held()) {
    throw_misuse(
        "a step was ended while DataParallel::gathered() holds all parameters: end its guard "
        "before training goes on");
  }
  // A rank without a batch used nothing since the last step, and the others may have.
  communicating([this] { settle_own_step(OwnStepWindow::Use::end); });
  replica::StepOutcome outcome = explaining([this] { return averaging_->end_step(nullptr); });
  // Passes on empty batches have left units behind also at the end of all ranks' batches, where
  // nothing has changed.
  communicating([this] { stage_ == 3 ? gathers_.forget() : gathers_.wait_for_all(); });
  if (outcome.has_writes && stage_ == 3) communicating([this] { compare_writes(); });
  if (outcome.complaint.empty()) outcome.complaint = complaint_about_memory();
  if (outcome.complaint.empty()) outcome.complaint = complaint_about_late_write();
  pieces_.end_step();
  gathers_.end_step();
  if (outcome.end != replica::StepEnd::over) open_window();
  report_ = averaging_->report();
  report_.sharded = {
      .gathers = gathers_.gathers(),
      .gathered_bytes = gathers_.gathered_bytes(),
      .whole_memory = static_cast<double>(stage_ < 3 ? units_.bytes() : memory_.pool().take_peak()),
      .piece_memory = static_cast<double>(memory_.piece_bytes())};
  return outcome;
}

// Each rank took the part of what the program wrote that it owns.
void ShardedAveraging::compare_writes() {
  replica::require_equal_fingerprints(*lane_, parameters_, memory_.take_fingerprints(),
                                      averaging_->report().step);
}

std::string ShardedAveraging::complaint_about_memory() const {
  const int moved = memory_.moved_parameter();
  if (moved < 0) return {};
  return c10::str("parameter '", parameters_[static_cast<std::size_t>(moved)].name,
                  "' was given other memory after DataParallel was made (set_data()), where "
                  "zero_stage ",
                  stage_,
                  " does not train it: write into it instead (copy_() under NoGradGuard), or make "
                  "another DataParallel");
}

std::string ShardedAveraging::complaint_about_late_write() const {
  if (late_leaf_ < 0) return {};
  const Leaf& leaf = memory_.leaves()[static_cast<std::size_t>(late_leaf_)];
  return c10::str("parameter '", parameters_[leaf.segment.parameter].name,
                  "' was written through parallel.parameters() after the step had ended, or by an "
                  "optimizer that stepped a second time, and other ranks' copies did not follow "
                  "(zero_stage ",
                  stage_, "): write into the model's own parameters, and step once in a step");
}

// A rank that cannot see its optimizers step hides whole units before they do.
void ShardedAveraging::await_own_step() {
  if (stage_ == 3 || !window_.is_open() || !window_.is_blind()) return;
  for (std::size_t u = 0; u < units_.size(); ++u) memory_.hide(u);
}

// Whole parameters are there for any code and any thread between two steps.
void ShardedAveraging::stepped(const replica::Optimizers& optimizers, double seconds) {
  averaging_->stepped(optimizers, seconds);
  window_.close();
  if (stage_ == 3) return;
  communicating([this] {
    gathers_.forget();
    make_all_whole();
  });
}

void ShardedAveraging::drain() {
  communicating([this] {
    if (std::uncaught_exceptions() == 0) settle_own_step(OwnStepWindow::Use::end);
    gathers_.wait_for_all();
  });
}

std::vector<at::Tensor> ShardedAveraging::leaves() const {
  std::vector<at::Tensor> all;
  for (const Leaf& leaf : memory_.leaves()) all.push_back(leaf.tensor);
  return all;
}

void ShardedAveraging::leaves_changed() {
  window_.close();
  late_leaf_ = -1;
  communicating([this] {
    gathers_.forget();
    if (stage_ < 3) make_all_whole();
  });
}

std::string ShardedAveraging::complaint_about(const torch::optim::Optimizer& optimizer) const {
  return complaint_about_optimizer(optimizer, parameters_, stage_);
}

std::shared_ptr<void> ShardedAveraging::gathered() {
  if (gathers_.is_held())
    throw_misuse("DataParallel::gathered() is in force already: end its guard first");
  communicating([this] {
    settle_own_step(OwnStepWindow::Use::end);
    gathers_.hold(true);
  });
  return {this, [this](void*) { gathers_.hold(false); }};
}

Traffic ShardedAveraging::traffic() const {
  Traffic sum = lane_->traffic();
  sum += gather_lane_->traffic();
  return sum;
}

replica::SynchronyState ShardedAveraging::state() {
  return averaging_->state();
}

void ShardedAveraging::restore(const replica::SavedSynchrony& saved) {
  averaging_->restore(saved);
}

}  // namespace paceline::shard
