#include "paceline/torch/pipeline/pipeline_training.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "paceline/core/base/base.h"
#include "paceline/core/pipeline/pipeline.h"
#include "paceline/torch/bridge/bridge.h"
#include "paceline/torch/pipeline/asynchronous_run.h"
#include "paceline/torch/pipeline/chosen_options.h"
#include "paceline/torch/pipeline/cut_batch.h"
#include "paceline/torch/pipeline/layer_recorder.h"
#include "paceline/torch/pipeline/made_stages.h"
#include "paceline/torch/pipeline/stages_of_rank.h"

namespace paceline {

using pipeline::Chunk;
using pipeline::MadeStages;

class Pipeline::Impl {
 public:
  Impl(const Layers& layers, DeviceMesh& mesh, PipelineOptions options)
      : mesh_(mesh),
        options_(pipeline::chosen(layers, mesh, std::move(options))),
        stages_(layers, mesh, options_),
        stage_group_(mesh.group("pp")),
        wire_(stage_group_.split(0)),
        work_(stages_.order().placement(), stages_.chunks(), options_.loss,
              stages_.recompute_every()) {
    if (!pipeline::parse_schedule(options_.schedule).value().entry.is_synchronous())
      endless_ = std::make_unique<pipeline::AsynchronousRun>(stages_, mesh, options_, shapes_);
    else recorder_ = pipeline::LayerRecorder::wanted(mesh, stages_.chunks());
    if (recorder_) work_.measure(recorder_->watch());
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
  bool is_first() const { return stage_group_.rank() == 0; }
  bool is_last() const { return stage_group_.rank() == stage_group_.size() - 1; }
  bool is_alone() const { return stage_group_.size() == 1; }
  std::int64_t agreed_samples(const Tensors& data);
  void learn_shapes(const pipeline::MicroBatches& batches);
  using Seen = std::function<void(int cut, const Tensors& tensors)>;
  Tensors run_through(Tensors data, const Seen& seen);
  pipeline::StepReport run_order();
  double endless_step(pipeline::MicroBatches batches, const PrepareOptimizer& prepare);
  void end_updates(const PrepareOptimizer& prepare);
  void clip();
  double global_loss(std::optional<double> own);

  DeviceMesh& mesh_;
  const PipelineOptions options_;
  std::unique_ptr<pipeline::LayerRecorder> recorder_;  // null: nobody asked for a record
  MadeStages stages_;
  Communicator& stage_group_;
  std::unique_ptr<Communicator> wire_;  // for the messages of steps alone
  pipeline::StagesOfRank work_;
  std::vector<std::vector<std::int64_t>> known_;  // the sizes of the batch to which shapes_ belongs
  pipeline::CutShapes shapes_;
  double weight_ = 1;
  bool has_weight_ = false;
  std::unique_ptr<pipeline::AsynchronousRun> endless_;  // null: each batch ends within its step
  std::uint64_t runs_ = 0;
  PipelineReport report_;
};

// The first stage tells how many samples there are, and whether shapes have changed.
std::int64_t Pipeline::Impl::agreed_samples(const Tensors& data) {
  std::vector<std::int64_t> told = {0, 0};  // samples; shapes have changed
  if (is_first()) {
    if (data.empty() || !data.front().defined() || data.front().dim() == 0) {
      throw_misuse(
          "Pipeline::step() got no data where the first stage is: hand the batch to the ranks of "
          "the first stage, and its target to those of the last one");
    }
    std::vector<std::vector<std::int64_t>> sizes;
    for (const at::Tensor& one : data) sizes.push_back(one.sizes().vec());
    told = {data.front().size(0), sizes != known_ ? 1 : 0};
    known_ = std::move(sizes);
  }
  if (endless_) endless_->tell(told);
  else if (!is_alone()) stage_group_.broadcast(buffer_of(told)).wait();
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

// Takes data through all stages, one after the other; returns what the last one does, where it is.
// Cut i stands before stage i.
Tensors Pipeline::Impl::run_through(Tensors data, const Seen& seen) {
  const at::NoGradGuard no_grad;
  const pipeline::Placement placement = stages_.order().placement();
  const int ranks = placement.ranks, rank = stage_group_.rank();
  for (Chunk& chunk : stages_.chunks()) {
    if (chunk.stage > 0 && !is_alone())
      data = pipeline::receive_with_shapes(stage_group_, (rank + ranks - 1) % ranks);
    if (seen) seen(chunk.stage, data);
    std::optional<Autocast> scope;
    if (chunk.parallel) scope.emplace(chunk.parallel->autocast());
    data = chunk.module->forward(std::move(data));
    if (seen) seen(chunk.stage + 1, data);
    if (chunk.stage + 1 < placement.stages && !is_alone())
      pipeline::send_with_shapes(stage_group_, data, (rank + 1) % ranks);
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
  for (const auto& [module, mode] : modes)
    if (module->is_training() != mode) module->train(mode);
}

double Pipeline::Impl::step(const Tensors& data, const at::Tensor& target,
                            PrepareOptimizer prepare) {
  const std::int64_t samples = agreed_samples(data);
  pipeline::MicroBatches batches = pipeline::cut_batch(
      is_first() ? &data : nullptr, is_last() ? &target : nullptr, samples, options_.micro_batches);
  learn_shapes(batches);
  if (endless_) return endless_step(std::move(batches), prepare);
  work_.begin_step(std::move(batches), shapes_);
  const pipeline::StepReport ran = run_order();
  const std::optional<double> loss = work_.end_step();
  end_updates(prepare);
  if (recorder_) recorder_->end_step();
  report_ = {.step = stages_.end_step(),
             .idle_seconds = ran.idle_seconds,
             .compute_seconds = ran.compute_seconds,
             .live_activations = ran.peak_live};
  return global_loss(loss);
}

double Pipeline::Impl::endless_step(pipeline::MicroBatches batches,
                                    const PrepareOptimizer& prepare) {
  const std::optional<double> weight = has_weight_ ? std::optional(weight_) : std::nullopt;
  const pipeline::StepReport ran = endless_->step(std::move(batches), prepare, weight);
  report_ = {.step = stages_.end_step(),
             .idle_seconds = ran.idle_seconds,
             .compute_seconds = ran.compute_seconds,
             .live_activations = ran.peak_live,
             .versions = endless_->most_versions()};
  return endless_->loss();
}

// Messages of a step that fails here may still come, into memory that goes: no rank goes on.
pipeline::StepReport Pipeline::Impl::run_order() {
  try {
    return pipeline::run(*wire_, stages_.order(), work_, runs_++);
  } catch (const std::exception& error) {
    wire_->abort(c10::str("the pipeline's step ", report_.step + 1, " failed on rank ",
                          mesh_.job().rank(), ": ", error.what()));
    throw;
  }
}

void Pipeline::Impl::end_updates(const PrepareOptimizer& prepare) {
  const bool clips = options_.training.max_grad_norm > 0;
  const bool needs_gradients = clips || !stages_.ties().empty();
  for (Chunk& chunk : stages_.chunks())
    if (chunk.parallel && needs_gradients) chunk.parallel->synchronize();
  stages_.ties().sum_gradients();
  if (clips) clip();
  for (Chunk& chunk : stages_.chunks()) {
    if (!chunk.parallel) continue;
    torch::optim::Optimizer* const optimizer = stages_.optimizer_of(chunk.stage);
    if (optimizer == nullptr) {
      chunk.parallel->step(prepare);
      continue;
    }
    if (prepare) prepare(*optimizer);
    if (needs_gradients) optimizer->step();
    else chunk.parallel->step(*optimizer);
    optimizer->zero_grad();
  }
}

// The norm is that of the whole model. Each stage scales by its own call, whose limit is such that
// all scale by the same factor.
void Pipeline::Impl::clip() {
  constexpr double kTiny = 1e-6;  // as libtorch adds to a norm
  std::vector<double> norms;
  double squares = 0;
  for (Chunk& chunk : stages_.chunks()) {
    if (!chunk.parallel) continue;
    norms.push_back(
        clip_grad_norm(chunk.module->parameters(), std::numeric_limits<double>::infinity()));
    squares += norms.back() * norms.back();
  }
  squares -= stages_.ties().squares_of_copies();
  if (!is_alone()) squares = stage_group_.all_reduce(squares);
  const double factor = options_.training.max_grad_norm / (std::sqrt(squares) + kTiny);
  auto norm = norms.begin();
  for (Chunk& chunk : stages_.chunks())
    if (chunk.parallel) clip_grad_norm(chunk.module->parameters(), factor * (*norm++ + kTiny));
}

double Pipeline::Impl::global_loss(std::optional<double> own) {
  double loss = own.value_or(0);
  if (!is_alone()) loss = stage_group_.all_reduce(loss);
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
  at::Tensor output = is_last() ? pipeline::only_tensor(last, "output") : at::Tensor();
  pipeline::broadcast_with_shape(stage_group_, output, stage_group_.size() - 1);
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
Traffic Pipeline::traffic() const {
  return impl_->traffic();
}
std::vector<torch::nn::Module*> Pipeline::modules() const {
  std::vector<torch::nn::Module*> modules;
  for (Chunk& chunk : impl_->stages().chunks()) modules.push_back(chunk.module.get());
  return modules;
}

}  // namespace paceline
