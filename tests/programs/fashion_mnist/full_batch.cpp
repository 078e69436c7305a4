#include "full_batch.h"

#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>

#include "examples/device_choice.h"
#include "measurement.h"
#include "models.h"
#include "paceline/torch/data/data.h"
#include "paceline/torch/parallel/parallel.h"
#include "paceline/torch/strategy/strategy.h"
#include "replica.h"
#include "reporters.h"
#include "training.h"

namespace data = paceline::data;

int train_full_batch(paceline::Job& job, const Options& options) {
  const at::ScalarType type = options.dtype == "float64" ? at::kDouble : at::kFloat;
  if (options.threads > 0) at::set_num_threads(options.threads);
  (void)chosen_device(options.device, job, "--optimizer sandblaster");
  torch::nn::Sequential model = make_model(options.model, options.seed, type);
  const data::LabelledImages training = data::load_fashion_mnist(data::Split::train, options.data);
  const data::LabelledImages test = data::load_fashion_mnist(data::Split::test, options.data);
  const std::int64_t test_images =
      options.test_images > 0 ? std::min(options.test_images, test.size()) : test.size();
  const std::int64_t steps = options.steps > 0 ? options.steps : kFullBatchSteps;
  const Replica replica(job, options);
  paceline::Sandblaster lbfgs(model, job,
                              {.samples = training.size(),
                               .portion = options.portion,
                               .lr = optimizer_settings_of(options).learning_rate});

  Reporters reporters(job, options, steps);
  const auto begin = std::chrono::steady_clock::now();
  double loss = 0, seconds = 0, test_accuracy = 0;
  for (std::int64_t step = 1; step <= steps; ++step) {
    loss = lbfgs.step([&](paceline::Portion portion) {
      const data::Batch batch =
          data::take(training, at::arange(portion.begin, portion.end), beside(model, type));
      return torch::nn::functional::cross_entropy(
          model->forward(batch.images), batch.labels,
          torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kSum));
    });
    seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    reporters.step(step, training.size(), loss);
    const bool is_evaluated =
        step == steps || (options.evaluate_every > 0 && step % options.evaluate_every == 0);
    if (!is_evaluated) continue;
    test_accuracy = accuracy(job, replica, model, test, test_images, type);
    reporters.epoch(step, seconds, loss, test_accuracy);
  }
  reporters.end_progress();
  reporters.write_trace();
  if (!options.save.empty() && job.rank() == 0)
    save_parameters(options.save, paceline::whole_parameters(*model));
  const std::string sha256 = agreed_sha256(job.world(), paceline::whole_sha256(*model));
  const double samples_per_second = static_cast<double>(steps * training.size()) / seconds;
  reporters.summary({{"event", "summary"},
                     {"world_size", std::int64_t{job.world_size()}},
                     {"steps", steps},
                     {"train_loss", loss},
                     {"test_accuracy", test_accuracy},
                     {"train_samples_per_second", samples_per_second},
                     {"portions", of_all_workers(job.world(), lbfgs.portions())},
                     {"parameters_sha256", sha256},
                     {"peak_rss_bytes", peak_rss_of_workers(job.world())}});
  if (job.rank() == 0)
    std::printf(
        "trained %s for %lld iterations of L-BFGS with %d worker%s and %d server%s: train loss "
        "%.4f, test accuracy %.4f, %.0f samples/s\n",
        options.model.c_str(), static_cast<long long>(steps), job.world_size(),
        job.world_size() == 1 ? "" : "s", job.servers(), job.servers() == 1 ? "" : "s", loss,
        test_accuracy, samples_per_second);
  return 0;
}
