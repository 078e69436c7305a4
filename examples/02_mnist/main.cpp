// A whole training to copy: a small network learns Fashion-MNIST on any number of workers.
//
//   mnist                                                              alone
//   paceline run -n 2 -- mnist --checkpoints runs/a                    on two workers, with saves
//   paceline run -n 3 -- mnist --checkpoints runs/a --resume           goes on from the newest save
//   mnist --trace trace.json --save model.pt                           see ui.perfetto.dev; torch::load
// Global batches do not depend on the number of workers, so that the results do not either.
#include <torch/torch.h>

#include <cmath>
#include <cstdio>
#include <numbers>
#include <optional>
#include <string>

#include <CLI/CLI.hpp>

#include "paceline/train.h"

namespace data = paceline::data;
namespace nn = torch::nn;
namespace observe = paceline::observe;

struct Options {
  std::int64_t epochs = 3, batch_size = 128, every = 200;
  int passes = 2;  // backward passes that make a step: gradients are accumulated over them
  double learning_rate = 0.05;
  bool resume = false;
  std::string checkpoints, trace, save, device = "auto";
};

nn::Sequential make_model() {
  return nn::Sequential(nn::Conv2d(nn::Conv2dOptions(1, 32, 5).stride(2).padding(2)), nn::ReLU(),
                        nn::Conv2d(nn::Conv2dOptions(32, 64, 3).padding(1)), nn::ReLU(),
                        nn::MaxPool2d(2), nn::Flatten(), nn::Linear(64 * 7 * 7, 64), nn::ReLU(),
                        nn::Linear(64, 10));
}

// The share of the test images that the model gets right. Each rank looks at its part of them.
double accuracy(paceline::Job& job, nn::Sequential& model, const data::LabelledImages& test) {
  const auto images_as = model->parameters().front().options();
  const torch::NoGradGuard no_grad;
  model->eval();
  double right = 0;
  const at::Tensor own = data::exact_share_of(test.size(), job.rank(), job.world_size());
  for (const at::Tensor& some : own.split(500)) {
    const data::Batch batch = data::take(test, some, images_as);
    right += model->forward(batch.images).argmax(1).eq(batch.labels).sum().item<double>();
  }
  model->train();
  return job.world().all_reduce(right) / static_cast<double>(test.size());
}

// The rate falls from its full value at step 0 to none at the last one, along half a cosine wave.
double cosine(double rate, std::int64_t step, std::int64_t steps) {
  const double done = static_cast<double>(step) / static_cast<double>(steps);
  return rate * (1 + std::cos(std::numbers::pi * done)) / 2;
}

int train(paceline::Job& job, const Options& options) {
  const bool tells = job.rank() == 0;
  for (const std::string& file : {options.trace, options.save})
    if (tells && !file.empty()) paceline::check_may_be_written("file to write at the end", file);
  if (!options.trace.empty()) job.trace().enable();
  const data::LabelledImages training = data::load_fashion_mnist(data::Split::train);
  const data::LabelledImages test = data::load_fashion_mnist(data::Split::test);
  data::GlobalBatches batches({.samples = training.size(),
                               .batch_size = options.batch_size,
                               .seed = 1,
                               .rank = job.rank(),
                               .world_size = job.world_size()});
  const std::int64_t steps = options.epochs * batches.per_epoch();

  torch::manual_seed(1);
  nn::Sequential model = make_model();
  const at::Device device =
      options.device == "auto" ? paceline::device_of(job) : at::Device(options.device);
  model->to(device);
  paceline::DataParallel parallel(model, job,
                                  {.backward_passes_per_step = options.passes, .max_grad_norm = 5});
  torch::optim::SGD optimizer(model->parameters(),
                              torch::optim::SGDOptions(options.learning_rate).momentum(0.9));

  std::optional<paceline::Checkpoints> checkpoints;
  std::int64_t step = 0;
  if (!options.checkpoints.empty()) {
    checkpoints.emplace(
        job, options.checkpoints,
        paceline::CheckpointOptions{.every = options.every, .resume = options.resume});
    checkpoints->add("model", model);
    checkpoints->add("optimizer", optimizer);
    checkpoints->add("parallel", parallel);
    step = checkpoints->resume();
  }
  const bool live = observe::is_terminal(stdout);
  std::optional<observe::Progress> progress;
  if (tells) progress.emplace(stdout, steps, observe::ProgressOptions{.live = live});
  while (step < steps && !(checkpoints && checkpoints->stopping())) {
    const data::GlobalBatches::Part part = batches.at(step);
    optimizer.param_groups()[0].options().set_lr(cosine(options.learning_rate, step, steps));
    optimizer.zero_grad();
    double loss_here = 0;
    for (const at::Tensor& some : part.indices.tensor_split(options.passes)) {
      parallel.weight(static_cast<double>(some.size(0)));  // parts may differ by a sample
      if (some.size(0) == 0) continue;
      const data::Batch batch = data::take(training, some, at::dtype(at::kFloat).device(device));
      const at::Tensor scores = model->forward(batch.images);
      const at::Tensor loss = nn::functional::cross_entropy(scores, batch.labels);
      (loss / options.passes).backward();  // gradients travel during the last pass
      loss_here += loss.item<double>() / options.passes;
    }
    parallel.step(optimizer);
    ++step;
    if (checkpoints) checkpoints->save_if_due(step);
    if (progress) progress->update(step, part.global_size, loss_here);
    if (step % batches.per_epoch() != 0) continue;
    if (progress) progress->pause();
    const double right = accuracy(job, model, test);
    if (tells) std::printf("%sstep %d: test accuracy %.4f\n", live ? "\n" : "", int(step), right);
  }
  progress.reset();
  parallel.finish();  // some synchronies still exchange what they have
  if (!options.trace.empty()) {
    const auto traces = observe::gather_traces(job.world(), job.trace());
    if (tells) observe::write_trace(options.trace, traces);
  }
  if (!options.save.empty()) parallel.save(options.save);
  return checkpoints ? checkpoints->finish() : 0;
}

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Trains a small network on Fashion-MNIST, alone or under `paceline run`.");
  app.add_option("--epochs", options.epochs, "Passes over the training images [3]");
  app.add_option("--batch-size", options.batch_size, "Samples of all workers in a step [128]");
  app.add_option("--passes", options.passes, "Backward passes that make a step [2]");
  app.add_option("--learning-rate", options.learning_rate, "At the beginning [0.05]");
  app.add_option("--checkpoints", options.checkpoints, "Save the training in this folder");
  app.add_option("--every", options.every, "Steps between two saves [200]");
  app.add_flag("--resume", options.resume, "Go on from the newest checkpoint there");
  app.add_option("--trace", options.trace, "Write what each rank did when, for ui.perfetto.dev");
  app.add_option("--device", options.device, "auto, cpu or cuda:N [auto]");
  app.add_option("--save", options.save, "Write the weights at the end, for torch::load");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;  // 0: --help
  }
  return paceline::run_main([&](paceline::Job& job) { return train(job, options); });
}
