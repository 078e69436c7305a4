#include "training.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>

#include "batch_source.h"
#include "corruption.h"
#include "examples/device_choice.h"
#include "full_batch.h"
#include "measurement.h"
#include "memory.h"
#include "models.h"
#include "paceline/torch/checkpointing/checkpointing.h"
#include "paceline/torch/data/data.h"
#include "paceline/torch/parallel/parallel.h"
#include "replica.h"
#include "reporters.h"
#include "stage_options.h"
#include "staged_training.h"
#include "steps.h"
#include "stragglers.h"
#include "synchrony.h"

namespace data = paceline::data;

namespace {

// An option that was given and works in host memory alone; empty: none was. `workers`: of a
// replica.
std::string option_of_the_host(const Options& options, int workers) {
  if (const std::string asked = pipeline_option_of(options); !asked.empty()) return asked;
  if (workers > 1) return "--layout " + options.layout;
  if (options.zero > 0) return "--zero " + std::to_string(options.zero);
  return {};
}

// These are not timed: the first steps allocate memory and plan the schedule.
constexpr std::int64_t kWarmUpSteps = 5;

paceline::DataParallelOptions parallel_options(const Options& options,
                                               const OptimizerSettings& settings) {
  paceline::DataParallelOptions parallel;
  parallel.schedule = options.schedule;
  parallel.compression = options.compression;
  parallel.aggregate = options.aggregate;
  parallel.synchrony = options.synchrony;
  parallel.precision = options.precision;
  parallel.non_finite = options.non_finite;
  parallel.zero_stage = options.zero;
  if (options.zero == 0) parallel.optimizer = optimizers_of(options.optimizer, settings);
  return parallel;
}

// The model that all replicas stand for. With --zero 3 they do not differ, and a layer is gathered
// when it is used: so the whole model need not fit.
std::optional<paceline::DataParallel::Consensus> consensus_of(paceline::DataParallel& parallel,
                                                              const Options& options) {
  if (options.zero == 3) return std::nullopt;
  return parallel.consensus();
}

// Whether a rank that the options name is there.
void require_rank(const char* option, const std::string& text, const paceline::Job& job) {
  const auto named = rank_and_factor_in(text, kDrawnRank);
  if (!named || named->rank < job.world_size()) return;
  throw paceline::Error({paceline::Fault::misuse,
                         std::string(option) + " " + text + ": there is no rank " +
                             std::to_string(named->rank) + " among " +
                             std::to_string(job.world_size()),
                         {}});
}

// Tells every worker that training has diverged, and ends it.
[[noreturn]] void give_up(paceline::Job& job, std::int64_t step, double loss,
                          const Options& options, const OptimizerSettings& settings) {
  char what[160];
  std::snprintf(what, sizeof what,
                "the loss of rank %d is %g in step %lld: training has diverged. Try a smaller "
                "--learning-rate than %g",
                job.rank(), loss, static_cast<long long>(step), settings.learning_rate);
  std::string text = what;
  if (settings.momentum > 0) text += ", or --momentum 0";
  if (options.compression != "none") text += ", or --compression none";
  job.world().abort(text);
  throw std::runtime_error(text);
}

// None: nobody asked for checkpoints.
std::unique_ptr<paceline::Checkpoints> checkpoints_of(paceline::Job& job, const Options& options,
                                                      torch::nn::Sequential& model,
                                                      paceline::DataParallel& parallel,
                                                      Steps& steps) {
  auto checkpoints = make_checkpoints(job, options);
  if (!checkpoints) return nullptr;
  checkpoints->add("model", model);
  checkpoints->add("parallel", parallel);  // with the optimizers that it owns
  steps.add_to(*checkpoints);
  return checkpoints;
}

}  // namespace

// All make as many passes: with --zero 3 each pass gathers the parameters.
double accuracy(paceline::Job& job, const Replica& replica, torch::nn::Sequential& model,
                const data::LabelledImages& test, std::int64_t images, at::ScalarType type) {
  const torch::NoGradGuard no_grad;
  model->eval();
  double right = 0;
  const std::int64_t most = (images + replica.replicas - 1) / replica.replicas,
                     passes = std::max<std::int64_t>((most + 499) / 500, 1);
  for (const at::Tensor& some :
       data::exact_share_of(images, replica.number, replica.replicas).tensor_split(passes)) {
    const data::Batch batch = data::take(test, some, beside(model, type));
    right += model->forward(batch.images).argmax(1).eq(batch.labels).sum().item<double>();
  }
  model->train();
  return sums_over_workers(job.world(), {right})[0] / replica.workers(job) /
         static_cast<double>(images);
}

static int train_within_memory(paceline::Job& job, const Options& options,
                               std::optional<TrainingMemory>& needed) {
  paceline::Communicator& world = job.world();
  const bool tells = job.rank() == 0;
  const at::ScalarType type = options.dtype == "float64"    ? at::kDouble
                              : options.dtype == "bfloat16" ? at::kBFloat16
                                                            : at::kFloat;
  const OptimizerSettings settings = optimizer_settings_of(options);
  require_rank("--slow", options.slow, job);
  require_rank("--corrupt", options.corrupt, job);
  const bool waits = makes_equal_steps(options.synchrony);
  const double corruption = corruption_of(options.corrupt, job.rank());
  Pace pace(options.pace, options.slow, options.seed, job.rank(), job.world_size());
  if (options.threads > 0) at::set_num_threads(options.threads);

  // Before the images are there, because it needs the most memory.
  Replica replica(job, options);
  torch::nn::Sequential model = make_model(options.model, options.seed, type);
  model->to(chosen_device(options.device, job, option_of_the_host(options, replica.workers(job))));
  needed.emplace(*model, plan_of(options.model), settings.momentum > 0 ? 3 : 2);
  const auto parallel_ptr =
      make_parallel(job, options, parallel_options(options, settings), replica, model);
  paceline::DataParallel& parallel = *parallel_ptr;

  const data::LabelledImages training = data::load_fashion_mnist(data::Split::train, options.data);
  const data::LabelledImages test = data::load_fashion_mnist(data::Split::test, options.data);
  const std::int64_t test_images =
      options.test_images > 0 ? std::min(options.test_images, test.size()) : test.size();
  const data::GlobalBatches::Options cut = {
      training.size(), options.batch_size, options.seed,
      replica.number,  replica.replicas,   *data::batch_split_named(options.split)};
  const data::GlobalBatches batches(cut);
  const std::int64_t steps =
      options.steps > 0 ? options.steps : options.epochs * batches.per_epoch();

  const auto making =
      make_steps(options, settings, job, model, parallel, training, type, batches.per_epoch());
  // Workers that wait for nobody take parts as fast as each is.
  BatchSource source(job, cut, steps, !waits);
  const auto checkpoints = checkpoints_of(job, options, model, parallel, *making);
  if (checkpoints) source.save_to(*checkpoints);
  const std::int64_t first = checkpoints ? checkpoints->resume() : 0;
  const auto is_stopped = [&] { return checkpoints && checkpoints->stopping(); };

  if (tells && settings.is_of_compression)
    std::printf(
        "%s gives directions: learning rate %g, momentum %g (--learning-rate, --momentum)\n",
        options.compression.c_str(), settings.learning_rate, settings.momentum);
  Reporters reporters(job, options, steps);
  const bool gradients_travel = options.synchrony == "synchronous",
             on_servers = keeps_parameters_on_servers(options.synchrony);
  StepTimer timer(world, gradients_travel || on_servers);
  const auto is_evaluated = [&](std::int64_t step) {
    return step == steps || step % batches.per_epoch() == 0 ||
           (options.evaluate_every > 0 && step % options.evaluate_every == 0);
  };
  double timed_samples = 0, epoch_loss = 0, epoch_samples = 0, train_loss = 0, test_accuracy = 0;
  std::int64_t own_steps = 0;
  const auto evaluate = [&](std::int64_t step) {
    parallel.finish();
    timer.stop();
    const auto sums = sums_over_workers(world, {epoch_loss, epoch_samples});
    train_loss = sums[0] / sums[1];
    epoch_loss = epoch_samples = 0;
    const auto consensus = consensus_of(parallel, options);
    const auto scope = parallel.autocast();
    test_accuracy = accuracy(job, replica, model, test, test_images, parallel.input_type());
    reporters.epoch(step, timer.wall_seconds, train_loss, test_accuracy);
  };

  source.begin(first);
  while (!is_stopped()) {
    const auto next = source.next();
    if (!next) break;
    const auto& [step, part] = *next;
    const bool timed = steps - first <= kWarmUpSteps || ++own_steps > kWarmUpSteps;
    if (timed && !timer.running()) timer.start();
    pace.begin_step();

    const std::int64_t own = part.indices.size(0);  // may be 0 in the last batch of an epoch
    parallel.weight(static_cast<double>(own));
    const double rate =
        settings.learning_rate * static_cast<double>(steps - step + 1) / static_cast<double>(steps);
    const data::Batch batch =
        own > 0 ? data::take(training, part.indices, beside(model, parallel.input_type()))
                : data::Batch();
    PartOfBatch computed{.samples = own};
    computed.loss = [&] {
      const paceline::TraceScope scope(job.trace(), paceline::TraceLane::training, "forward");
      const auto autocast = parallel.autocast();
      const at::Tensor scores = model->forward(batch.images).to(type);
      return torch::nn::functional::cross_entropy(scores, batch.labels);
    };
    computed.backward = [&](const at::Tensor& loss) {
      // Gradients leave while backward goes on, so a slow worker is slow before it.
      pace.hold_back(step);
      const paceline::TraceScope scope(job.trace(), paceline::TraceLane::training, "backward");
      parallel.backward(corruption != 1 ? loss * corruption : loss);
    };
    computed.look_at = [&](double loss) {
      if (!std::isfinite(loss) && options.non_finite.empty())
        give_up(job, step, loss, options, settings);
    };
    if (own == 0) pace.hold_back(step);
    const double loss_here = make_step(*making, parallel, step, computed, rate);

    if (std::isfinite(loss_here)) {  // else the step was left out
      epoch_loss += loss_here * static_cast<double>(own);
      epoch_samples += static_cast<double>(own);
    }
    const std::int64_t counted = source.are_dealt() ? own : part.global_size;
    if (timed) timed_samples += static_cast<double>(counted);
    reporters.step(step, counted, loss_here);

    timer.count(parallel.last_step());
    if (checkpoints) checkpoints->save_if_due(step);
    if (!source.are_dealt() && is_evaluated(step)) evaluate(step);
  }
  if (checkpoints) checkpoints->wait_for_all_ranks();
  if (source.are_dealt() && !is_stopped() && !source.were_over()) {
    evaluate(steps);
    timed_samples = sums_over_workers(world, {timed_samples})[0];
  }
  reporters.end_progress();
  reporters.write_trace();
  if (is_stopped()) return checkpoints->finish();
  if (checkpoints && !source.were_over() &&
      (source.are_dealt() || steps % options.checkpoint_every != 0))
    checkpoints->save(steps);
  std::string sha256;
  {
    const auto consensus = consensus_of(parallel, options);
    if (source.were_over())
      test_accuracy = accuracy(job, replica, model, test, test_images, parallel.input_type());
    if (!options.save.empty()) {
      const std::vector<at::Tensor> whole = paceline::whole_parameters(*model);
      if (tells) save_parameters(options.save, whole);
    }
    sha256 = agreed_sha256(world, paceline::whole_sha256(*model));
  }
  const std::vector<std::int64_t> peak_rss = peak_rss_of_workers(world);
  std::vector<double> means =
      sums_over_workers(world, {timer.wall_seconds, timer.in_flight_seconds, timer.waited_seconds,
                                timer.wall_seconds - timer.waited_seconds});
  for (double& mean : means) mean /= job.world_size();
  const double samples_per_second = means[0] > 0 ? timed_samples / means[0] : 0,
               communication = means[1], exposed = means[2], compute = means[3];
  paceline::observe::Metrics summary = {{"event", "summary"},
                                        {"world_size", std::int64_t{job.world_size()}},
                                        {"steps", steps},
                                        {"skipped_steps", parallel.last_step().skipped},
                                        {"train_loss", train_loss},
                                        {"test_accuracy", test_accuracy},
                                        {"train_samples_per_second", samples_per_second},
                                        {"communication_seconds", communication},
                                        {"compute_seconds", compute},
                                        {"exposed_communication_seconds", exposed},
                                        {"parameters_sha256", sha256},
                                        {"peak_rss_bytes", peak_rss}};
  for (auto& figure : exchange_figures(parallel.last_step())) summary.push_back(figure);
  if (on_servers)
    for (auto& figure : server_figures(parallel.last_step())) summary.push_back(figure);
  for (auto& figure : sharding_figures(parallel)) summary.push_back(figure);
  if (options.forecast) {
    const double seconds =
        forecast_step_seconds(options.synchrony, *model, world, *options.forecast);
    summary.emplace_back("forecast_step_seconds", seconds);
    if (tells) std::printf("a step should take %.3g ms\n", 1000 * seconds);
  }
  reporters.summary(summary);
  if (tells && source.were_over()) {
    tell_nothing_left(first, test_accuracy);
  } else if (tells) {
    std::printf(
        "trained %s for %lld steps with %d worker%s: train loss %.4f, test accuracy %.4f, %.0f "
        "samples/s\n"
        "time of a worker: %.2f s computing, %.2f s communicating, of which it waited %.2f s\n",
        options.model.c_str(), static_cast<long long>(steps), job.world_size(),
        job.world_size() == 1 ? "" : "s", train_loss, test_accuracy, samples_per_second, compute,
        communication, exposed);
    if (const auto& servers = parallel.last_step().servers; on_servers)
      std::printf("%s: version %lld of the servers, %lld updates of this rank, %lld dropped\n",
                  options.synchrony.c_str(), static_cast<long long>(servers.version),
                  static_cast<long long>(servers.used), static_cast<long long>(servers.dropped));
    else if (const auto& exchange = parallel.last_step().exchange; !gradients_travel)
      std::printf("%s: %lld exchanges, %.3g MB of this rank, distance %.3g at the last\n",
                  options.synchrony.c_str(), static_cast<long long>(exchange.exchanges),
                  exchange.bytes / 1e6, exchange.distance);
    if (timer.coded_bytes > 0)
      std::printf("compressed gradients were %.2f %% of their bytes\n",
                  100 * timer.wire_bytes / timer.coded_bytes);
  }
  return checkpoints ? checkpoints->finish() : 0;
}

std::unique_ptr<paceline::Checkpoints> make_checkpoints(paceline::Job& job,
                                                        const Options& options) {
  if (options.checkpoint_dir.empty()) return nullptr;
  return std::make_unique<paceline::Checkpoints>(
      job, options.checkpoint_dir,
      paceline::CheckpointOptions{.every = options.checkpoint_every, .resume = options.resume});
}

void tell_nothing_left(std::int64_t first, double test_accuracy) {
  std::printf("nothing was left to train after step %lld: test accuracy %.4f\n",
              static_cast<long long>(first), test_accuracy);
}

void save_parameters(const std::string& file, const std::vector<at::Tensor>& parameters) {
  std::ofstream out(file, std::ios::binary);
  for (const at::Tensor& parameter : parameters) {
    const at::Tensor dense = parameter.detach().cpu().contiguous();
    out.write(static_cast<const char*>(dense.const_data_ptr()),
              static_cast<std::streamsize>(dense.nbytes()));
  }
  out.close();
  if (!out)
    throw paceline::Error({paceline::Fault::io, "cannot write the parameters to " + file, {}});
}

int train(paceline::Job& job, const Options& options) {
  std::optional<TrainingMemory> needed;  // as soon as the model is known
  try {
    if (options.memory_limit > 0) limit_memory(options.memory_limit);
    if (options.optimizer == "sandblaster") return train_full_batch(job, options);
    if (!pipeline_option_of(options).empty()) {
      (void)chosen_device(options.device, job, option_of_the_host(options, 1));
      return train_in_stages(job, options);
    }
    return train_within_memory(job, options, needed);
  } catch (const std::exception& error) {
    if (!is_out_of_memory(error) || !needed) throw;
    throw std::runtime_error(needed->text(job.world_size(), options.memory_limit));
  }
}
