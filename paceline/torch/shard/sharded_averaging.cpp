#include "paceline/torch/shard/sharded_averaging.h"

#include <torch/torch.h>

#include <exception>
#include <utility>

#include "paceline/core/base/base.h"
#include "paceline/torch/shard/sharding_refusals.h"

namespace paceline::shard {

using parallel::GradientAveraging;
using Lane = parallel::WaitWatch::Lane;

std::unique_ptr<parallel::Synchrony> make_sharded_averaging(const parallel::ModelParts& parts,
                                                            Communicator& group, Job* job,
                                                            const DataParallelOptions& options) {
  require_shardable(parts, options);
  if (group.size() == 1) return parallel::make_gradient_averaging(parts, group, job, options);
  return std::make_unique<ShardedAveraging>(parts, group, job, options);
}

namespace {

parallel::ParameterPieces pieces_of(const UnitMemory& memory, Communicator& ranks) {
  parallel::ParameterPieces pieces{.ranks = &ranks};
  for (const Leaf& leaf : memory.leaves()) {
    const auto begin = leaf.segment.place / leaf.tensor.element_size();
    pieces.own.push_back({leaf.segment.parameter, static_cast<std::int64_t>(begin), leaf.tensor});
  }
  return pieces;
}

}  // namespace

ShardedAveraging::ShardedAveraging(const parallel::ModelParts& parts, Communicator& group, Job* job,
                                   const DataParallelOptions& options)
    : stage_(options.zero_stage),
      parameters_(parts.dense),
      lane_(group.split(0)),
      gather_lane_(group.split(0)),
      watch_(stage_ == 3 ? std::make_unique<parallel::WaitWatch>(*gather_lane_) : nullptr),
      units_(Units::of(parts, group.size(), options)),
      memory_(units_, parts, *gather_lane_, /*stays_whole=*/stage_ < 3),
      gathers_(units_, memory_, *gather_lane_, {watch_.get(), Lane::gathers},
               /*stay_whole=*/stage_ < 3, options.zero_prefetch, facts()),
      pieces_(units_, *lane_, {watch_.get(), Lane::pieces}, wire_of(options.compression),
              /*keeps_memory=*/stage_ == 1, memory_.leaves(),
              [this] { communicating([this] { gathers_.take_part_in_rest(); }); }),
      leaf_pieces_(pieces_of(memory_, *lane_)),
      averaging_(std::make_unique<GradientAveraging>(parts, group, job, options, &pieces_)),
      uses_(std::make_unique<StorageUses>(
          memory_.storages(), [this](const std::vector<std::size_t>& units) { used(units); })) {
  averaging_->watch_facts({watch_.get(), Lane::facts}, [this] { return gathers_.last_use(); });
}

GatherFacts ShardedAveraging::facts() {
  return {.has_shadows = [this] { return averaging_->has_shadows(); },
          .tell_reading = [this](std::size_t unit) { return averaging_->tell_reading(unit); },
          .wait_for_reading = [this](const auto& told) { averaging_->wait_for_reading(told); }};
}

ShardedAveraging::~ShardedAveraging() {
  uses_.reset();
  averaging_.reset();
  pieces_.release();  // whole parameters take their place
  if (has_failed_ || std::uncaught_exceptions() > 0) return;
  try {
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
  const bool begins_pass = in_training && !in_backward && is_in_backward_;
  if (in_training) is_in_backward_ = in_backward;
  const UnitUse use = in_training ? UnitUse::training : UnitUse::evaluation;
  if (!begins_pass && gathers_.are_ready(units, use)) return;
  const at::NoGradGuard no_grad;
  try {
    explaining([&] {
      if (begins_pass) gathers_.begin_pass();
      if (stage_ == 3 && in_training) averaging_->tell_weight();
      gathers_.begin(units, use);
    });
  } catch (const std::exception&) {
    fail(std::current_exception());
    gathers_.poison(units);
  }
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

parallel::StepOutcome ShardedAveraging::end_step(parallel::OwnUpdates*) {
  if (gathers_.is_held()) {
    throw_misuse(
        "a step was ended while DataParallel::gathered() holds all parameters: end its guard "
        "before training goes on");
  }
  // A rank without a batch used nothing since the last step, and the others may have.
  if (stage_ < 3) communicating([this] { gathers_.start_all(); });
  parallel::StepOutcome outcome = explaining([this] { return averaging_->end_step(nullptr); });
  // At the end of all ranks' batches nothing has changed, but passes on empty batches have left
  // units behind.
  if (outcome.end != parallel::StepEnd::over || stage_ == 3)
    communicating([this] { gathers_.forget(); });
  if (outcome.has_writes && stage_ == 3) communicating([this] { compare_writes(); });
  if (outcome.complaint.empty()) outcome.complaint = complaint_about_memory();
  pieces_.end_step();
  gathers_.end_step();
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
  parallel::require_equal_fingerprints(*lane_, parameters_, memory_.take_fingerprints(),
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

// Whole parameters are there for any code and any thread between two steps.
void ShardedAveraging::stepped(const parallel::Optimizers& optimizers, double seconds) {
  averaging_->stepped(optimizers, seconds);
  if (stage_ == 3) return;
  communicating([this] {
    gathers_.start_all();
    gathers_.wait_for_all();
  });
}

// After a step of the caller's own optimizer nothing may have been started.
void ShardedAveraging::drain() {
  communicating([this] {
    if (stage_ < 3 && std::uncaught_exceptions() == 0) gathers_.start_all();
    gathers_.wait_for_all();
  });
}

std::vector<at::Tensor> ShardedAveraging::leaves() const {
  std::vector<at::Tensor> all;
  for (const Leaf& leaf : memory_.leaves()) all.push_back(leaf.tensor);
  return all;
}

void ShardedAveraging::leaves_changed() {
  communicating([this] {
    gathers_.forget();
    if (stage_ == 3) return;
    gathers_.start_all();
    gathers_.wait_for_all();
  });
}

std::string ShardedAveraging::complaint_about(const torch::optim::Optimizer& optimizer) const {
  return complaint_about_optimizer(optimizer, parameters_, stage_);
}

std::shared_ptr<void> ShardedAveraging::gathered() {
  if (gathers_.is_held())
    throw_misuse("DataParallel::gathered() is in force already: end its guard first");
  communicating([this] { gathers_.hold(true); });
  return {this, [this](void*) { gathers_.hold(false); }};
}

Traffic ShardedAveraging::traffic() const {
  Traffic sum = lane_->traffic();
  sum += gather_lane_->traffic();
  return sum;
}

parallel::SynchronyState ShardedAveraging::state() {
  return averaging_->state();
}

void ShardedAveraging::restore(const parallel::SavedSynchrony& saved) {
  averaging_->restore(saved);
}

}  // namespace paceline::shard
