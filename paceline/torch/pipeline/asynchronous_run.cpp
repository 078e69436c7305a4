#include "paceline/torch/pipeline/asynchronous_run.h"

#include <torch/utils.h>

#include <iterator>
#include <string>

#include "paceline/core/base/base.h"
#include "paceline/torch/bridge/bridge.h"
#include "paceline/torch/norm/norm.h"

namespace paceline::pipeline {
namespace {

// Why the stage cannot have versions, as text; empty: nothing is known.
std::string objection_to(MadeStages& stages, const std::string& schedule) {
  const std::string otherwise = ", or choose schedule \"1f1b\"";
  if (!stages.ties().empty()) {
    return c10::str("schedule \"", schedule,
                    "\" does not go with tied parameters (Layers::tie): stages step at different "
                    "times, so the copies would differ; give each layer a weight of its own",
                    otherwise);
  }
  const auto norms = sync_batch_norms_in(*stages.chunks().front().module);
  if (norms.empty()) return {};
  return c10::str("schedule \"", schedule, "\" does not go with SyncBatchNorm, which layer '",
                  norms.front().name,
                  "' is: replicas would wait for each other within each pass; take BatchNorm",
                  otherwise);
}

// All ranks throw what the first of them has to say.
void refuse_together(Communicator& group, std::string text) {
  if (group.size() > 1) {
    std::vector<std::int64_t> first = {text.empty() ? group.size() : group.rank()};
    group.all_reduce(buffer_of(first), {.op = ReduceOp::min}).wait();
    if (first[0] == group.size()) return;
    const int from = static_cast<int>(first[0]);
    std::vector<std::int64_t> length = {static_cast<std::int64_t>(text.size())};
    group.broadcast(buffer_of(length), from).wait();
    text.resize(static_cast<std::size_t>(length[0]));
    group.broadcast({reinterpret_cast<std::byte*>(text.data()), text.size(), Dtype::u8}, from)
        .wait();
  }
  if (!text.empty()) throw_misuse(text);
}

RunnerOptions runner_options(const Turns& turns) {
  RunnerOptions options;
  options.ahead = turns.warm_up + 1;
  return options;
}

}  // namespace

AsynchronousRun::AsynchronousRun(MadeStages& stages, DeviceMesh& mesh,
                                 const PipelineOptions& options, const CutShapes& shapes)
    : stage_group_(mesh.group("pp")),
      replicas_(mesh.group("dp,cp")),
      placement_(stages.order().placement()),
      trace_(mesh.job().trace()),
      turns_(turns_of(placement_, stage_group_.rank())),
      micro_batches_(options.micro_batches),
      behind_((stage_group_.size() - 1 + micro_batches_ - 1) / micro_batches_),
      work_(made_work(stages, options, shapes)),
      words_(stage_group_.split(0)),
      wire_(stage_group_.split(0)),
      runner_(*wire_, placement_, *work_, runner_options(turns_)) {}

std::unique_ptr<AsynchronousWork> AsynchronousRun::made_work(MadeStages& stages,
                                                             const PipelineOptions& options,
                                                             const CutShapes& shapes) {
  const ScheduleChoice choice = parse_schedule(options.schedule).value();
  const VersionRule rule = version_rule(choice, placement_, micro_batches_).value();
  std::string objection = objection_to(stages, options.schedule);
  std::unique_ptr<AsynchronousWork> work;
  try {
    if (objection.empty())
      work = std::make_unique<AsynchronousWork>(stages, options.loss, shapes, rule, turns_);
  } catch (const Error& error) {
    objection = error.failure().what;
  }
  refuse_together(stage_group_, std::move(objection));
  return work;
}

AsynchronousRun::~AsynchronousRun() {
  if (batches_ == 0) return;
  try {
    abort(c10::str("a Pipeline ended on stage ", turns_.stage,
                   " with batches in flight: call finish() on all ranks before"));
  } catch (...) {  // it has ended already
  }
}

void AsynchronousRun::tell(std::vector<std::int64_t>& told,
                           const std::function<void(const Work&)>& wait) {
  const int from = placement_.rank_of(0, batches_);
  if (stage_group_.rank() != from) {
    wait(words_->recv(buffer_of(told), from));
    return;
  }
  if (replicas_.size() > 1)
    told[1] = replicas_.all_reduce(static_cast<double>(told[1]), ReduceOp::max) > 0 ? 1 : 0;
  for (int rank = 0; rank < stage_group_.size(); ++rank)
    if (rank != from) words_->send(const_buffer_of(told), rank).wait();
}

StepReport AsynchronousRun::step(MicroBatches batch, const PrepareOptimizer& prepare,
                                 std::optional<double> weight) {
  work_->hand_in(std::move(batch), prepare, weight);
  if (!work_->is_own(batches_++)) return {.peak_live = last_.peak_live};
  std::vector<Operation> operations;
  for (int i = 0; i < micro_batches_; ++i)
    std::ranges::copy(turns_.turn(turn_++), std::back_inserter(operations));
  // The next batch's message may come while this one is computed.
  std::optional<Operation> next_forward;
  if (turns_.stage > 0) next_forward = {Kind::forward, turns_.stage, turns_.micro_batch(turn_)};
  last_ = run(operations, next_forward);
  // The next backward's gradient comes without any further batch.
  if (const int next = turn_ - turns_.warm_up; turns_.warm_up > 0 && next >= 0)
    runner_.expect({Kind::backward, turns_.stage, turns_.micro_batch(next)});
  take_losses(turns_.replicas == 1 ? batches_ - behind_ : turn_ - turns_.warm_up);
  return last_;
}

void AsynchronousRun::drain() {
  if (batches_ == 0) return;
  run({});  // of these batches are the messages that follow
  meet_expected();
  run(turns_.drain(turn_));
  if (turns_.stage > 0 && turn_ > 0)
    runner_.forget({Kind::forward, turns_.stage, turns_.micro_batch(turn_)});
  runner_.drain();
  take_losses(turn_ / micro_batches_);
  work_->restart();
  first_turn_ += static_cast<std::uint64_t>(batches_ * micro_batches_ + placement_.ranks);
  turn_ = batches_ = losses_taken_ = 0;
}

// The next stage's ranks that have taken a turn receive for their next one, which does not come.
void AsynchronousRun::meet_expected() {
  const int stage = turns_.stage + 1;
  for (int i = 0; stage < placement_.stages && i < placement_.replicas_of(stage); ++i) {
    const int rank = placement_.first_rank_of(stage) + i;
    const Turns turns = turns_of(placement_, rank);
    const int owns = turns.owns_of(batches_ * micro_batches_), next = turns.micro_batch(owns);
    if (owns == 0 || placement_.rank_of(turns_.stage, next) != stage_group_.rank()) continue;
    const Transfer transfer{Kind::forward, stage, next, rank};
    work_->make_unused(transfer);
    runner_.send_unused(transfer);
  }
}

// Messages that come after a failure would go into memory that goes: no rank goes on.
StepReport AsynchronousRun::run(const std::vector<Operation>& operations,
                                std::optional<Operation> next) {
  try {
    StepReport report = runner_.run(operations, first_turn_, next);
    trace_operations(report, trace_);
    return report;
  } catch (const std::exception& error) {
    abort(c10::str("the pipeline failed on stage ", turns_.stage, ": ", error.what()));
    throw;
  }
}

void AsynchronousRun::abort(const std::string& reason) {
  batches_ = 0;  // nothing is left to drain
  words_->abort(reason);
  wire_->abort(reason);
}

// Takes those of this rank's first own batches since the last drain.
void AsynchronousRun::take_losses(int owns) {
  if (losses_taken_ >= owns) return;
  AsynchronousWork::BatchLoss newest;
  for (; losses_taken_ < owns; ++losses_taken_)
    newest = work_->take_loss(turns_.replica + losses_taken_ * turns_.replicas);
  loss_ = newest.loss;
  if (replicas_.size() == 1) return;
  const double weight = newest.weight.value_or(1);
  std::vector<double> sums = {loss_ * weight, weight};
  replicas_.all_reduce(buffer_of(sums)).wait();
  loss_ = sums[0] / sums[1];
}

}  // namespace paceline::pipeline
