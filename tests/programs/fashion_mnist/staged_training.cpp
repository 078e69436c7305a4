#include "staged_training.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "measurement.h"
#include "memory.h"
#include "models.h"
#include "paceline/core/base/base.h"
#include "paceline/core/base/stopwatch.h"
#include "paceline/core/mesh/mesh.h"
#include "paceline/core/pipeline/pipeline.h"
#include "paceline/torch/data/data.h"
#include "paceline/torch/pipeline/pipeline.h"
#include "paceline/torch/precision/precision.h"
#include "replica.h"
#include "reporters.h"
#include "stage_options.h"
#include "steps.h"
#include "training.h"

namespace {

namespace images = paceline::data;

class StagedTraining {
 public:
  StagedTraining(paceline::Job& job, const Options& options);
  int run();

 private:
  paceline::PipelineOptions pipeline_options();
  void require_samples();
  void make_step(std::int64_t step, std::int64_t first);
  void evaluate(std::int64_t step);
  double accuracy();
  void save();
  double bubble();
  double cut_bytes_per_step(std::int64_t steps);
  void tell(std::int64_t first);
  // Without a flush the first loss comes back some steps later.
  bool is_awaited(double loss, std::int64_t steps) const {
    return std::isnan(loss) && !is_flushed_ && steps < 2 * job_.world_size();
  }
  bool is_stopped() { return checkpoints_ && checkpoints_->stopping(); }
  bool is_evaluated(std::int64_t step) {
    return step == steps_ || step % batches_.per_epoch() == 0 ||
           (options_.evaluate_every > 0 && step % options_.evaluate_every == 0);
  }

  paceline::Job& job_;
  const Options& options_;
  const OptimizerSettings settings_;
  const at::ScalarType type_, input_type_;
  paceline::DeviceMesh mesh_;
  const bool is_flushed_;  // each batch ends within its step
  paceline::Pipeline pipeline_;
  const images::LabelledImages training_, test_;
  images::GlobalBatches batches_;
  const std::int64_t steps_;
  const std::unique_ptr<paceline::Checkpoints> checkpoints_;
  Reporters reporters_;
  double wall_seconds_ = 0, idle_seconds_ = 0, compute_seconds_ = 0, timed_samples_ = 0;
  double epoch_loss_ = 0, epoch_samples_ = 0, train_loss_ = 0, test_accuracy_ = 0;
  std::int64_t live_activations_ = 0, versions_ = 1;
};

at::ScalarType type_of(const Options& options) {
  return options.dtype == "float64"    ? at::kDouble
         : options.dtype == "bfloat16" ? at::kBFloat16
                                       : at::kFloat;
}

std::string schedule_of(const Options& options) {
  return options.pipeline.empty() ? "1f1b" : options.pipeline;
}

bool is_synchronous(const std::string& schedule) {
  return paceline::pipeline::parse_schedule(schedule).value().entry.is_synchronous();
}

at::ScalarType input_type_of(const Options& options) {
  const auto choice = paceline::precision::parse_precision(options.precision);
  const bool is_halved = choice && choice.value().mode == paceline::precision::Mode::o2;
  return is_halved ? choice.value().type : type_of(options);
}

constexpr double kMicro = 1e6;

// The bytes of this worker's stages.
std::int64_t parameter_bytes_of(paceline::Pipeline& pipeline) {
  std::int64_t bytes = 0;
  for (const torch::nn::Module* stage : pipeline.modules())
    for (const at::Tensor& one : stage->parameters())
      bytes += static_cast<std::int64_t>(one.nbytes());
  return bytes;
}

StagedTraining::StagedTraining(paceline::Job& job, const Options& options)
    : job_(job),
      options_(options),
      settings_(optimizer_settings_of(options)),
      type_(type_of(options)),
      input_type_(input_type_of(options)),
      mesh_(job, layout_of(options, job.world_size())),
      is_flushed_(is_synchronous(schedule_of(options))),
      // Before the images are there, because it needs the most memory.
      pipeline_(make_layers(options.model, options.seed, type_), mesh_, pipeline_options()),
      training_(images::load_fashion_mnist(images::Split::train, options.data)),
      test_(images::load_fashion_mnist(images::Split::test, options.data)),
      batches_({training_.size(), options.batch_size, options.seed, mesh_.rank("dp"),
                mesh_.size("dp"), *images::batch_split_named(options.split)}),
      steps_(options.steps > 0 ? options.steps : options.epochs * batches_.per_epoch()),
      checkpoints_(make_checkpoints(job, options)),
      reporters_(job, options, steps_) {
  require_samples();
  if (checkpoints_) checkpoints_->add("pipeline", pipeline_);
}

paceline::PipelineOptions StagedTraining::pipeline_options() {
  if (options_.threads > 0) at::set_num_threads(options_.threads);
  paceline::PipelineOptions pipeline;
  pipeline.schedule = schedule_of(options_);
  if (options_.micro_batches != 0) pipeline.micro_batches = options_.micro_batches;
  pipeline.partition = options_.partition;
  if (!options_.recompute.empty()) pipeline.recompute = options_.recompute;
  const std::int64_t own = std::max<std::int64_t>(options_.batch_size / mesh_.size("dp"), 1);
  constexpr std::int64_t kSide = 28;  // pixels
  pipeline.sample = {{at::full({own, 1, kSide, kSide}, 0.5, input_type_)},
                     at::zeros({own}, at::kLong)};
  pipeline.loss = [type = type_](const at::Tensor& scores, const at::Tensor& labels) {
    return torch::nn::functional::cross_entropy(scores.to(type), labels);
  };
  pipeline.optimizer = [this](std::vector<at::Tensor> parameters) {
    return optimizer_of_all(options_.optimizer, settings_, std::move(parameters));
  };
  if (mesh_.size("tp") > 1) {
    require_shared_layers(options_);
    pipeline.tensor_plan = plan_of(options_.model);
  }
  pipeline.training.schedule = options_.schedule;
  pipeline.training.precision = options_.precision;
  pipeline.training.zero_stage = options_.zero;
  pipeline.training.non_finite = options_.non_finite;
  return pipeline;
}

// The last batch of an epoch may be smaller than the others.
void StagedTraining::require_samples() {
  const std::int64_t last = std::min(steps_, batches_.per_epoch());
  const std::int64_t own =
      std::min(batches_.at(0).indices.size(0), batches_.at(last - 1).indices.size(0));
  const double least = job_.world().all_reduce(static_cast<double>(own), paceline::ReduceOp::min);
  if (least >= pipeline_.micro_batches()) return;
  throw paceline::Error({paceline::Fault::misuse,
                         "--micro-batches " + std::to_string(pipeline_.micro_batches()) +
                             " cannot cut the smallest batch of a replica, which has " +
                             std::to_string(static_cast<std::int64_t>(least)) +
                             " images: raise --batch-size " + std::to_string(options_.batch_size) +
                             ", or take fewer micro-batches",
                         {}});
}

void StagedTraining::make_step(std::int64_t step, std::int64_t first) {
  constexpr std::int64_t kUntimedSteps = 5;  // the first steps allocate memory
  const std::int64_t steps = step - first;   // of this process
  const auto part = batches_.at(step - 1);
  const std::int64_t own = part.indices.size(0);
  const double rate = settings_.learning_rate * static_cast<double>(steps_ - step + 1) /
                      static_cast<double>(steps_);
  const paceline::Stopwatch watch;
  const images::Batch batch = pipeline_.reads_data() || pipeline_.reads_target()
                                  ? images::take(training_, part.indices, input_type_)
                                  : images::Batch();
  pipeline_.weight(static_cast<double>(own));
  double loss = 0;
  {
    const paceline::TraceScope scope(job_.trace(), paceline::TraceLane::training, "step");
    loss = pipeline_.step(batch.images, batch.labels, [rate](torch::optim::Optimizer& optimizer) {
      set_learning_rate(optimizer, rate);
    });
  }
  const bool is_loss = !is_awaited(loss, steps);
  if (is_loss && !std::isfinite(loss) && options_.non_finite.empty()) {
    throw std::runtime_error(
        "the loss is not finite in step " + std::to_string(step) +
        ": training has diverged. Try a smaller --learning-rate, or --momentum 0");
  }
  if (std::isfinite(loss)) {  // else the step was left out, or the loss comes back later
    epoch_loss_ += loss * static_cast<double>(part.global_size);
    epoch_samples_ += static_cast<double>(part.global_size);
  }
  const paceline::PipelineReport& report = pipeline_.last_step();
  live_activations_ = std::max<std::int64_t>(live_activations_, report.live_activations);
  versions_ = report.versions;
  if (steps_ - first <= kUntimedSteps || steps > kUntimedSteps) {
    wall_seconds_ += watch.seconds();
    idle_seconds_ += report.idle_seconds;
    compute_seconds_ += report.compute_seconds;
    timed_samples_ += static_cast<double>(part.global_size);
  }
  reporters_.step(step, part.global_size, loss);
}

// Each replica looks at its part of the test images.
double StagedTraining::accuracy() {
  pipeline_.eval();
  const std::int64_t all =
      options_.test_images > 0 ? std::min(options_.test_images, test_.size()) : test_.size();
  double right = 0;
  for (const at::Tensor& some :
       images::exact_share_of(all, mesh_.rank("dp"), mesh_.size("dp")).split(500)) {
    const images::Batch batch = images::take(test_, some, input_type_);
    right += pipeline_.forward(batch.images).argmax(1).eq(batch.labels).sum().item<double>();
  }
  pipeline_.train();
  const double workers = job_.world_size() / mesh_.size("dp");  // of each replica
  return job_.world().all_reduce(right) / workers / static_cast<double>(all);
}

void StagedTraining::evaluate(std::int64_t step) {
  pipeline_.finish();
  if (epoch_samples_ > 0) train_loss_ = epoch_loss_ / epoch_samples_;
  epoch_loss_ = epoch_samples_ = 0;
  test_accuracy_ = accuracy();
  reporters_.epoch(step, wall_seconds_, train_loss_, test_accuracy_);
}

void StagedTraining::save() {
  if (options_.save.empty()) return;
  const auto state = pipeline_.state();
  std::vector<std::int32_t> is_parameter(state.size());  // the others are buffers
  for (const torch::nn::Module* stage : pipeline_.modules()) {
    const auto own = stage->named_parameters();
    for (std::size_t i = 0; i < state.size(); ++i)
      if (own.contains(state[i].key())) is_parameter[i] = 1;
  }
  mesh_.group("pp")
      .all_reduce(paceline::buffer_of(is_parameter), {.op = paceline::ReduceOp::max})
      .wait();
  std::vector<at::Tensor> parameters;
  for (std::size_t i = 0; i < state.size(); ++i)
    if (is_parameter[i] != 0) parameters.push_back(state[i].value());
  if (job_.rank() == 0) save_parameters(options_.save, parameters);
}

// The share of their time in which workers waited for other stages.
double StagedTraining::bubble() {
  const auto sums = sums_over_workers(job_.world(), {idle_seconds_, compute_seconds_});
  return sums[1] > 0 ? sums[0] / (sums[0] + sums[1]) : 0;
}

// Activations and gradients that stages sent each other, of all workers.
double StagedTraining::cut_bytes_per_step(std::int64_t steps) {
  const double bytes = job_.world().all_reduce(static_cast<double>(pipeline_.traffic().bytes_sent));
  return steps > 0 ? bytes / static_cast<double>(steps) : 0;
}

void StagedTraining::tell(std::int64_t first) {
  paceline::Communicator& world = job_.world();
  const double seconds = world.all_reduce(wall_seconds_) / world.size();
  const double samples_per_second = seconds > 0 ? timed_samples_ / seconds : 0;
  const double waited = bubble();
  reporters_.summary({
      {"event", "summary"},
      {"world_size", std::int64_t{job_.world_size()}},
      {"layout", mesh_.layout().text()},
      {"schedule", schedule_of(options_)},
      {"stages", std::int64_t{pipeline_.stages()}},
      {"micro_batches", std::int64_t{pipeline_.micro_batches()}},
      {"first_layers",
       std::vector<std::int64_t>(pipeline_.first_layers().begin(), pipeline_.first_layers().end())},
      {"recompute", pipeline_.recompute()},
      {"steps", steps_},
      {"train_loss", train_loss_},
      {"test_accuracy", test_accuracy_},
      {"train_samples_per_second", samples_per_second},
      {"parameters_sha256", agreed_sha256(world, pipeline_.parameters_sha256())},
      {"peak_rss_bytes", peak_rss_of_workers(world)},
      {"parameter_bytes", of_all_workers(world, parameter_bytes_of(pipeline_))},
      {"busy_microseconds", of_all_workers(world, std::llround(compute_seconds_ * kMicro))},
      {"compute_seconds", world.all_reduce(compute_seconds_) / world.size()},
      {"bubble", waited},
      {"cut_bytes_per_step", cut_bytes_per_step(steps_ - first)},
      {"live_activations", of_all_workers(world, live_activations_)},
      {"versions", of_all_workers(world, versions_)},
  });
  if (job_.rank() != 0) return;
  if (first >= steps_) return tell_nothing_left(first, test_accuracy_);
  std::printf(
      "trained %s for %lld steps with %d worker%s, layout %s: train loss %.4f, test accuracy %.4f, "
      "%.0f samples/s\n"
      "stages waited for each other %.1f %% of their time\n",
      options_.model.c_str(), static_cast<long long>(steps_), job_.world_size(),
      job_.world_size() == 1 ? "" : "s", mesh_.layout().text().c_str(), train_loss_, test_accuracy_,
      samples_per_second, 100 * waited);
}

int StagedTraining::run() {
  const std::int64_t first = checkpoints_ ? checkpoints_->resume() : 0;
  for (std::int64_t step = first + 1; step <= steps_ && !is_stopped(); ++step) {
    make_step(step, first);
    if (checkpoints_) checkpoints_->save_if_due(step);
    if (is_evaluated(step)) evaluate(step);
  }
  reporters_.end_progress();
  reporters_.write_trace();
  if (is_stopped()) return checkpoints_->finish();
  if (checkpoints_ && first < steps_ && steps_ % options_.checkpoint_every != 0)
    checkpoints_->save(steps_);
  if (first >= steps_) test_accuracy_ = accuracy();
  save();
  tell(first);
  return checkpoints_ ? checkpoints_->finish() : 0;
}

}  // namespace

int train_in_stages(paceline::Job& job, const Options& options) {
  try {
    return StagedTraining(job, options).run();
  } catch (const std::exception& error) {
    if (!is_out_of_memory(error)) throw;
    throw std::runtime_error(
        "memory ended on rank " + std::to_string(job.rank()) + " with " +
        pipeline_option_of(options) +
        ": take more stages (--layout pp=N), a smaller --batch-size or more --micro-batches");
  }
}
