#include "paceline/torch/pipeline/pipeline_training.h"

#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <utility>

#include "paceline/core/base/base.h"
#include "paceline/core/base/log.h"
#include "paceline/core/pipeline/pipeline.h"
#include "paceline/torch/bridge/bridge.h"
#include "paceline/torch/pipeline/asynchronous_run.h"
#include "paceline/torch/pipeline/chosen_options.h"
#include "paceline/torch/pipeline/finite_steps.h"
#include "paceline/torch/pipeline/layer_recorder.h"
#include "paceline/torch/pipeline/made_stages.h"
#include "paceline/torch/pipeline/stages_of_rank.h"

namespace paceline {

using pipeline::Chunk;
using pipeline::MadeStages;

// Batches of other sizes have another number, but for a chance in 2^64.
static std::int64_t number_of_sizes(const Tensors& data) {
  std::string text;
  for (const at::Tensor& one : data) text += c10::str(one.sizes());
  return static_cast<std::int64_t>(std::hash<std::string>()(text));
}

static std::chrono::nanoseconds time_of(double seconds) {
  return std::chrono::nanoseconds(static_cast<std::int64_t>(1e9 * seconds));
}

class Pipeline::Impl {
 public:
  Impl(const Layers& layers, DeviceMesh& mesh, PipelineOptions options)
      : mesh_(mesh),
        options_(pipeline::chosen(layers, mesh, std::move(options))),
        stages_(layers, mesh, options_),
        stage_group_(mesh.group("pp")),
        work_(stages_.order().placement(), stages_.chunks(), options_.loss,
              stages_.recompute_every(), stages_.splits_backward()),
        wire_(stage_group_.split(0)),
        finite_(options_.training, mesh, stages_) {
    if (!pipeline::parse_schedule(options_.schedule).value().entry.is_synchronous())
      endless_ = std::make_unique<pipeline::AsynchronousRun>(stages_, mesh, options_, shapes_);
    else recorder_ = pipeline::LayerRecorder::wanted(mesh, stages_.chunks());
    if (recorder_) work_.measure(recorder_->watch());
    for (const Chunk& chunk : stages_.chunks())
      stage_numbers_ += (stage_numbers_.empty() ? "" : ",") + std::to_string(chunk.stage);
  }

  double step(const Tensors& data, const at::Tensor& target, PrepareOptimizer prepare);
  at::Tensor forward(const at::Tensor& data);

  void weigh(double samples) {
    weight_ = samples;
    has_weight_ = true;
    if (endless_) return;  // it goes with the batch, whose gradient comes later
    for (Chunk& chunk : stages_.chunks())
      if (chunk.parallel) chunk.parallel->weight(samples);
  }
  void wait_between_steps(const Work& work) const {
    placed(Place::before, [&] { wait_for_stages(work, Place::before); });
  }
  void drain() {
    if (endless_) endless_->drain();
  }
  void finish() {
    drain();
    for (Chunk& chunk : stages_.chunks())
      if (chunk.parallel) chunk.parallel->finish();
  }
  void train(bool on) {
    for (Chunk& chunk : stages_.chunks()) chunk.module->train(on);
    if (endless_) endless_->train(on);
  }
  MadeStages& stages() { return stages_; }
  const PipelineOptions& options() const { return options_; }
  const PipelineReport& report() const { return report_; }
  Traffic traffic() const { return endless_ ? endless_->traffic() : wire_->traffic(); }

 private:
  // One rank of a stage has the next batch, if its ranks take turns.
  bool takes_next(int stage) const {
    return stage_group_.rank() == rank_of(stage, endless_ ? endless_->next_batch() : 0);
  }
  int rank_of(int stage, int batch) const {
    return stages_.order().placement().rank_of(stage, batch);
  }
  bool is_alone() const { return stage_group_.size() == 1; }
  std::int64_t agreed_samples(const Tensors& data);
  void learn_shapes(const pipeline::MicroBatches& batches);
  using Seen = std::function<void(int cut, const Tensors& tensors)>;
  Tensors run_through(Tensors data, const Seen& seen);
  pipeline::StepReport run_order();
  enum class Place : std::uint8_t { before, after };  // of the micro-batches of a step
  std::string text_of(Place place) const;
  void placed(Place place, const std::function<void()>& call) const;
  void wait_for_stages(const Work& work, Place place) const;
  double sum_over_stages(double own);
  void end_step(const pipeline::StepReport& ran, int versions, double norm = 0);
  double endless_step(pipeline::MicroBatches batches, const PrepareOptimizer& prepare);
  double end_updates(const PrepareOptimizer& prepare, std::optional<double> loss);
  void update(Chunk& chunk, bool may_update, bool has_gradients, const PrepareOptimizer& prepare);
  double clip();
  double global_loss(std::optional<double> own);

  DeviceMesh& mesh_;
  const PipelineOptions options_;
  std::unique_ptr<pipeline::LayerRecorder> recorder_;  // null: nobody asked for a record
  MadeStages stages_;
  Communicator& stage_group_;
  pipeline::StagesOfRank work_;
  std::unique_ptr<Communicator> wire_;  // for the messages of steps alone; ends before their memory
  std::int64_t known_ = 0;  // a number of the sizes of the batch to which shapes_ belongs
  pipeline::CutShapes shapes_;
  double weight_ = 1;
  bool has_weight_ = false;
  std::unique_ptr<pipeline::AsynchronousRun> endless_;  // null: each batch ends within its step
  pipeline::FiniteSteps finite_;
  std::uint64_t runs_ = 0;
  PipelineReport report_;
  std::string stage_numbers_;                      // of this rank, as "0,2"
  std::chrono::nanoseconds idle_{0}, compute_{0};  // in all steps
};

// The first stage tells how many samples there are, and whether shapes have changed.
std::int64_t Pipeline::Impl::agreed_samples(const Tensors& data) {
  std::vector<std::int64_t> told = {0, 0, 0};  // samples; shapes have changed; a number of these
  if (takes_next(0)) {
    if (data.empty() || !data.front().defined() || data.front().dim() == 0) {
      throw_misuse(
          "Pipeline::step() got no data where the first stage is: hand the batch to the ranks of "
          "the first stage, and its target to those of the last one");
    }
    const std::int64_t sizes = number_of_sizes(data);
    told = {data.front().size(0), sizes != known_ ? 1 : 0, sizes};
  }
  placed(Place::before, [&] {
    const auto wait = [this](const Work& work) { wait_for_stages(work, Place::before); };
    if (endless_) endless_->tell(told, wait);
    else if (!is_alone()) wait(stage_group_.broadcast(buffer_of(told)));
  });
  known_ = told[2];
  if (told[0] < options_.micro_batches) {
    throw_misuse(c10::str("Pipeline::step() got a batch of ", told[0],
                          " samples, which cannot be cut into ", options_.micro_batches,
                          " micro-batches: hand in larger batches, or set fewer micro_batches"));
  }
  if (told[1] != 0) {
    drain();  // what is in flight has the shapes of before
    shapes_.clear();
  }
  return told[0];
}

// Takes data through all stages, one after the other, on the ranks that have batch 0; returns what
// the last one does, where it is. Cut i stands before stage i.
Tensors Pipeline::Impl::run_through(Tensors data, const Seen& seen) {
  const at::NoGradGuard no_grad;
  const pipeline::Placement placement = stages_.order().placement();
  for (Chunk& chunk : stages_.chunks()) {
    if (stage_group_.rank() != placement.rank_of(chunk.stage, 0)) continue;
    if (chunk.stage > 0 && !is_alone())
      data = pipeline::receive_with_shapes(stage_group_, placement.rank_of(chunk.stage - 1, 0));
    if (seen) seen(chunk.stage, data);
    std::optional<Autocast> scope;
    if (chunk.parallel) scope.emplace(chunk.parallel->autocast());
    data = chunk.module->forward(std::move(data));
    if (seen) seen(chunk.stage + 1, data);
    if (chunk.stage + 1 < placement.stages && !is_alone())
      pipeline::send_with_shapes(stage_group_, data, placement.rank_of(chunk.stage + 1, 0));
  }
  return data;
}

// A pass in evaluation mode changes no state of any layer.
void Pipeline::Impl::learn_shapes(const pipeline::MicroBatches& batches) {
  if (!shapes_.empty() || is_alone()) return;
  std::vector<std::pair<torch::nn::Module*, bool>> modes;
  for (Chunk& chunk : stages_.chunks())
    for (const auto& module : chunk.module->modules())
      modes.emplace_back(module.get(), module->is_training());
  for (Chunk& chunk : stages_.chunks()) chunk.module->eval();
  for (std::size_t i = 0; i < batches.samples.size(); ++i) {
    const std::int64_t samples = batches.samples[i];
    if (i > 0 && samples == batches.samples[i - 1]) continue;
    run_through(batches.data[i], [&](int cut, const Tensors& tensors) {
      shapes_[{cut, samples}] = pipeline::shapes_of(tensors);
    });
  }
  if (Communicator* const others = stages_.turn_takers())
    pipeline::broadcast_shapes(*others, shapes_);
  for (const auto& [module, mode] : modes)
    if (module->is_training() != mode) module->train(mode);
}

double Pipeline::Impl::step(const Tensors& data, const at::Tensor& target,
                            PrepareOptimizer prepare) {
  const std::int64_t samples = agreed_samples(data);
  pipeline::MicroBatches batches = pipeline::cut_batch(
      takes_next(0) ? &data : nullptr, takes_next(stages_.order().stages - 1) ? &target : nullptr,
      samples, options_.micro_batches);
  placed(Place::before, [&] { learn_shapes(batches); });
  if (endless_) return endless_step(std::move(batches), prepare);
  const auto& scale = stages_.loss_scale();
  work_.begin_step(std::move(batches), shapes_, scale ? scale->scale() : 1);
  const pipeline::StepReport ran = run_order();
  const std::optional<double> loss = work_.end_step();
  double mean = 0, norm = 0;
  placed(Place::after, [&] {
    norm = end_updates(prepare, loss);
    mean = global_loss(loss);
  });
  if (recorder_) recorder_->end_step();
  end_step(ran, /*versions=*/1, norm);
  return mean;
}

void Pipeline::Impl::end_step(const pipeline::StepReport& ran, int versions, double norm) {
  report_ = {.step = stages_.end_step(),
             .idle_seconds = ran.idle_seconds,
             .compute_seconds = ran.compute_seconds,
             .live_activations = ran.peak_live,
             .versions = versions,
             .skipped = finite_.skipped(),
             .grad_norm = norm};
  idle_ += time_of(ran.idle_seconds);
  compute_ += time_of(ran.compute_seconds);
  mesh_.job().report_stages(stage_numbers_, idle_, compute_);
}

// This tells where the rank stands in a step while no operation of the runner, which tells its own,
// is under way: before its first micro-batch, or after its last one.
std::string Pipeline::Impl::text_of(Place place) const {
  const int first = endless_ ? endless_->next_micro_batch() : 0;
  return c10::str(place == Place::before ? "before" : "after", " micro-batch ",
                  place == Place::before ? first : first + options_.micro_batches - 1, " of stage ",
                  stage_numbers_, " in step ", stages_.steps() + 1);
}

// A failure of the communication in this call is told with the place.
void Pipeline::Impl::placed(Place place, const std::function<void()>& call) const {
  try {
    call();
  } catch (const Error& error) {
    Failure failure = error.failure();
    if (failure.fault == Fault::misuse) throw;
    failure.what = c10::str("pipeline: rank ", mesh_.job().rank(), " waited ", text_of(place), ": ",
                            failure.what);
    throw Error(std::move(failure));
  }
}

// Waits for other stages, and tells a long wait, as the runner does.
void Pipeline::Impl::wait_for_stages(const Work& work, Place place) const {
  const auto stall = pipeline::RunnerOptions().stall;
  try {
    return work.wait(Deadline::in(stall));
  } catch (const Error& error) {
    if (work.done() || error.fault() != Fault::timed_out) throw;
  }
  warn(c10::str("stall: for ", std::chrono::duration<double>(stall).count(), " s rank ",
                mesh_.job().rank(), " waits for other stages ", text_of(place)));
  work.wait();
}

double Pipeline::Impl::sum_over_stages(double own) {
  if (is_alone()) return own;
  std::vector<double> sum = {own};
  wait_for_stages(stage_group_.all_reduce(buffer_of(sum)), Place::after);
  return sum[0];
}

double Pipeline::Impl::endless_step(pipeline::MicroBatches batches,
                                    const PrepareOptimizer& prepare) {
  const std::optional<double> weight = has_weight_ ? std::optional(weight_) : std::nullopt;
  const pipeline::StepReport ran = endless_->step(std::move(batches), prepare, weight);
  end_step(ran, endless_->most_versions());
  return endless_->loss();
}

// Messages of a step that fails here may still come, into memory that goes: no rank goes on.
pipeline::StepReport Pipeline::Impl::run_order() {
  try {
    pipeline::StepReport ran = pipeline::run(*wire_, stages_.order(), work_, runs_++);
    trace_operations(ran, mesh_.job().trace());
    return ran;
  } catch (const std::exception& error) {
    wire_->abort(c10::str("the pipeline's step ", report_.step + 1, " failed on rank ",
                          mesh_.job().rank(), ": ", error.what()));
    throw;
  }
}

// Returns the norm of the whole model's gradient, if it is clipped; else, or if the step was left
// out, 0. `loss`: of this rank, if it has the last stage.
double Pipeline::Impl::end_updates(const PrepareOptimizer& prepare, std::optional<double> loss) {
  const bool clips = options_.training.max_grad_norm > 0;
  const bool needs_gradients = clips || finite_.looks() || !stages_.ties().empty();
  for (Chunk& chunk : stages_.chunks())
    if (chunk.parallel && needs_gradients) chunk.parallel->synchronize();
  stages_.ties().sum_gradients();
  const bool may_update = !finite_.looks() || finite_.passes(loss);
  const Stopwatch watch;
  const double norm = clips && may_update ? clip() : 0;
  for (Chunk& chunk : stages_.chunks())
    if (chunk.parallel) update(chunk, may_update, needs_gradients, prepare);
  if (recorder_ && needs_gradients) recorder_->saw_update(watch.seconds());
  return norm;
}

// `may_update`: else its gradients are gone. Masters of float32 are known to the DataParallel alone,
// which has to end their step also then; without gradients that changes nothing.
void Pipeline::Impl::update(Chunk& chunk, bool may_update, bool has_gradients,
                            const PrepareOptimizer& prepare) {
  const bool has_masters = !chunk.parallel->replicas().masters().empty();
  if (!may_update && !has_masters) return;
  torch::optim::Optimizer* const optimizer = stages_.optimizer_of(chunk.stage);
  if (optimizer == nullptr) {
    chunk.parallel->step(prepare);
    return;
  }
  if (prepare) prepare(*optimizer);
  if (has_gradients && !has_masters) optimizer->step();
  else chunk.parallel->step(*optimizer);
  optimizer->zero_grad();
}

// The norm is that of the whole model. All stages scale by the bits of one factor, so that copies of
// tied parameters stay equal.
double Pipeline::Impl::clip() {
  constexpr double kTiny = 1e-6;  // as libtorch adds to a norm
  double squares = 0;
  for (Chunk& chunk : stages_.chunks()) {
    if (!chunk.parallel) continue;
    const double norm =
        clip_grad_norm(chunk.module->parameters(), std::numeric_limits<double>::infinity());
    squares += norm * norm;
  }
  squares -= stages_.ties().squares_of_copies();
  squares = sum_over_stages(squares);
  const double whole = std::sqrt(squares);
  const double factor = options_.training.max_grad_norm / (whole + kTiny);
  if (factor < 1)
    for (Chunk& chunk : stages_.chunks())
      if (chunk.parallel) scale_grads(chunk.module->parameters(), factor);
  return whole;
}

double Pipeline::Impl::global_loss(std::optional<double> own) {
  const double loss = sum_over_stages(own.value_or(0));
  Communicator& replicas = mesh_.group("dp,cp");
  if (replicas.size() == 1) return loss;
  std::vector<double> sums = {loss * weight_, weight_};
  replicas.all_reduce(buffer_of(sums)).wait();
  return sums[0] / sums[1];
}

at::Tensor Pipeline::Impl::forward(const at::Tensor& data) {
  drain();
  const Tensors last = run_through({data}, {});
  if (is_alone()) return pipeline::only_tensor(last, "output");
  const int root = rank_of(stages_.order().stages - 1, 0);
  at::Tensor output =
      stage_group_.rank() == root ? pipeline::only_tensor(last, "output") : at::Tensor();
  pipeline::broadcast_with_shape(stage_group_, output, root);
  return output;
}

Pipeline::Pipeline(const Layers& layers, DeviceMesh& mesh, PipelineOptions options)
    : impl_(std::make_unique<Impl>(layers, mesh, std::move(options))) {}

Pipeline::~Pipeline() = default;

double Pipeline::step(const at::Tensor& data, const at::Tensor& target, PrepareOptimizer prepare) {
  return impl_->step({data}, target, std::move(prepare));
}
double Pipeline::step(const Tensors& data, const at::Tensor& target, PrepareOptimizer prepare) {
  return impl_->step(data, target, std::move(prepare));
}
at::Tensor Pipeline::forward(const at::Tensor& data) {
  return impl_->forward(data);
}
void Pipeline::weight(double samples) {
  impl_->weigh(samples);
}
void Pipeline::finish() {
  impl_->finish();
}
void Pipeline::train(bool on) {
  impl_->train(on);
}
torch::OrderedDict<std::string, at::Tensor> Pipeline::state() {
  impl_->drain();
  return impl_->stages().state();
}
std::string Pipeline::parameters_sha256() {
  impl_->drain();
  return impl_->stages().parameters_sha256();
}
int Pipeline::stages() const {
  return impl_->stages().order().stages;
}
const std::vector<int>& Pipeline::first_layers() const {
  return impl_->stages().first_layers();
}
bool Pipeline::reads_data() const {
  return impl_->stages().chunks().front().stage == 0;
}
bool Pipeline::reads_target() const {
  return impl_->stages().chunks().back().stage == stages() - 1;
}
int Pipeline::micro_batches() const {
  return impl_->options().micro_batches;
}
const std::string& Pipeline::recompute() const {
  return impl_->options().recompute;
}
const PipelineReport& Pipeline::last_step() const {
  return impl_->report();
}
pipeline::MadeStages& Pipeline::made_stages() {
  return impl_->stages();
}
void Pipeline::wait_between_steps(const Work& work) const {
  impl_->wait_between_steps(work);
}
Traffic Pipeline::traffic() const {
  return impl_->traffic();
}
std::vector<torch::nn::Module*> Pipeline::modules() const {
  std::vector<torch::nn::Module*> modules;
  for (Chunk& chunk : impl_->stages().chunks()) modules.push_back(chunk.module.get());
  return modules;
}

}  // namespace paceline
