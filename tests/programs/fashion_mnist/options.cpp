#include "options.h"

#include <algorithm>
#include <utility>

#include <CLI/CLI.hpp>

#include "corruption.h"
#include "examples/device_choice.h"
#include "examples/stage_choices.h"
#include "models.h"
#include "paceline/core/compress/methods/compression.h"
#include "paceline/core/pipeline/pipeline.h"
#include "paceline/core/schedule/schedule.h"
#include "paceline/torch/data/data.h"
#include "paceline/torch/strategy/strategy.h"
#include "stage_options.h"
#include "stragglers.h"

// CLI::PositiveNumber is not used, because its error text shows a range of 300 digits.
static const CLI::Range kPositive(std::int64_t{1}, std::int64_t{1'000'000'000});

static std::string is_address(const std::string& text) {
  const std::string port = text.substr(text.rfind(':') + 1);
  const bool good = !port.empty() && port.size() <= 5 &&
                    port.find_first_not_of("0123456789") == std::string::npos &&
                    std::stoi(port) > 0 && std::stoi(port) <= 65000 && text.front() != ':';
  return good ? ""
              : text + " is no [HOST:]PORT with a port of 1 to 65000, as in 9400 or 0.0.0.0:9400";
}

static std::string names_of(const auto& catalogue) {
  std::string names;
  for (const auto& entry : catalogue)
    names += (names.empty() ? "" : ", ") + std::string(entry.name);
  return names;
}

// An optimizer, and what goes with it.
struct OptimizerChoice {
  const char* name;
  double learning_rate;  // 0: the network's
  bool has_momentum;
  bool needs_all_ranks;  // mean gradients as they are, in every step
};
static constexpr OptimizerChoice kOptimizers[] = {
    {"sgd", 0, true, false},      {"adamw", 1e-3, false, false},  {"lars", 10, true, false},
    {"lamb", 0.02, false, false}, {"l_bfgs", 1, false, true},     {"sqn", 0.05, false, true},
    {"svrg", 0, false, true},     {"sandblaster", 1, false, true}};

static const OptimizerChoice& optimizer_of(const Options& options) {
  return *std::ranges::find(kOptimizers, options.optimizer, &OptimizerChoice::name);
}

static bool gives_a_direction(const Options& options) {
  namespace compress = paceline::compress;
  const auto compression =
      compress::parse_compression(options.compression, compress::built_in_methods());
  return compression && compression.value().method.outcome == compress::Method::Outcome::direction;
}

// Empty: the optimizer goes with the other options.
static std::string complaint_about_optimizer(const Options& options) {
  const OptimizerChoice& optimizer = optimizer_of(options);
  const std::string name = "--optimizer " + options.optimizer;
  if (optimizer.needs_all_ranks && options.synchrony != "synchronous")
    return name + " needs the gradient of all workers in every step, which --synchrony " +
           options.synchrony + " does not make: take --synchrony synchronous, or sgd";
  if (optimizer.needs_all_ranks && options.compression != "none")
    return name + " compares gradients with each other, and --compression " + options.compression +
           " changes them: take --compression none, or sgd";
  if (optimizer.needs_all_ranks && options.precision != "none")
    return name + " compares gradients with each other, and --precision " + options.precision +
           " rounds them: take --precision none, or sgd";
  if (optimizer.needs_all_ranks && options.non_finite == "skip")
    return name +
           " compares the gradients of steps that follow each other, of which --non-finite " +
           "skip would leave some out: take --non-finite throw, or sgd";
  if (options.optimizer != "sgd" && gives_a_direction(options))
    return "--compression " + options.compression +
           " gives directions for plain SGD, no gradients: take --optimizer sgd";
  if (options.zero > 0 && options.optimizer != "sgd" && options.optimizer != "adamw")
    return name + " looks at whole tensors, of which each worker has a part with --zero " +
           std::to_string(options.zero) + ": take sgd or adamw";
  if (options.momentum && !optimizer.has_momentum)
    return name + " has no --momentum: sgd and lars have one";
  return {};
}

// Empty: nothing else was asked for that iterations on all images do not do.
static std::string complaint_about_full_batch(const Options& options) {
  if (options.optimizer != "sandblaster") return {};
  const std::pair<bool, const char*> others[] = {
      {!options.layout.empty(), "--layout"},
      {options.schedule != "buckets", "--schedule"},
      {options.aggregate != "collective", "--aggregate"},
      {options.dtype == "bfloat16", "--dtype bfloat16"},
      {!options.checkpoint_dir.empty(), "--checkpoint-dir"},
      {!options.corrupt.empty(), "--corrupt"},
      {options.pace > 0, "--pace"},
      {options.forecast.has_value(), "--forecast"}};
  for (const auto& [is_given, option] : others)
    if (is_given)
      return "--optimizer sandblaster makes iterations on all images, whose vectors lie on "
             "servers: it takes no " +
             std::string(option);
  return {};
}

int read_options(int argc, char** argv, Options& options) {
  CLI::App app("Trains a network on Fashion-MNIST, alone or on the workers of `paceline run`.");
  options.data = paceline::data::kFashionMnistFolder;
  app.add_option("--model", options.model, "Network")
      ->check(CLI::IsMember(model_names()))
      ->capture_default_str();
  std::vector<std::string> optimizers;
  for (const OptimizerChoice& one : kOptimizers) optimizers.emplace_back(one.name);
  app.add_option("--optimizer", options.optimizer,
                 "Optimizer; l_bfgs, sqn and svrg need --synchrony synchronous; sandblaster makes "
                 "iterations of l_bfgs on all images, and needs `paceline run --servers N`")
      ->check(CLI::IsMember(optimizers))
      ->capture_default_str();
  app.add_option("--split", options.split,
                 "How images come into batches: each once in an epoch (shuffled), each worker from "
                 "a block of its own (contiguous), or drawn (with_replacement)")
      ->check(CLI::IsMember(paceline::data::batch_split_names()))
      ->capture_default_str();
  app.add_option("--layout", options.layout,
                 "What the workers do: dp=N replicas of the network, tp=N workers that share the "
                 "layers of one (linear layers only), pp=N stages of it, each with some of its "
                 "layers, or several, as dp=2,pp=2 [all are replicas]");
  app.add_option(
         "--pipeline", options.pipeline,
         "What each stage computes after what: " + names_of(paceline::pipeline::schedules()) +
             ", with settings, such as interleaved:chunks=2. pipedream and pipedream_2bw step by "
             "gradients of older weights; the others have the same bits [1f1b]")
      ->check(CLI::Validator(complaint_about_pipeline_schedule, "SCHEDULE"));
  add_micro_batches(app, options.micro_batches, "each batch of a replica");
  app.add_option(
      "--partition", options.partition,
      "Which layers make each stage, such as 0-2,3-5; or the file of a profile of this "
      "network (`paceline profile`) or automatic, which times the layers, to cut by "
      "their times. The layers of mlp: 0 Flatten, 1 Linear, 2 ReLU, 3 Linear, 4 ReLU, 5 Linear "
      "[as many layers on each as on the others, to one]");
  add_recompute(app, options.recompute);
  app.add_option("--memory-limit", options.memory_limit,
                 "Let a worker take so many bytes beside what it needs to start, such as 480MiB")
      ->transform(CLI::AsSizeValue(false));
  app.add_option("--epochs", options.epochs, "Passes over the training images")
      ->check(kPositive)
      ->capture_default_str();
  app.add_option("--steps", options.steps,
                 "Train for this number of steps instead of epochs; sandblaster has 30")
      ->check(kPositive);
  app.add_option("--batch-size", options.batch_size, "Images in a step, all workers together")
      ->check(kPositive)
      ->capture_default_str();
  app.add_option("--test-images", options.test_images,
                 "Measure the accuracy with this number of test images [all]")
      ->check(kPositive);
  app.add_option("--evaluate-every", options.evaluate_every,
                 "Measure the accuracy after each so many steps too, not after each epoch alone")
      ->check(kPositive);
  app.add_option(
         "--learning-rate", options.learning_rate,
         "Learning rate of the first step; it falls to zero, except that of l_bfgs, whose line "
         "search tries it first [depends on the network, the optimizer and the compression]")
      ->check(CLI::Range(1e-9, 1e3));
  app.add_option("--momentum", options.momentum,
                 "Momentum of sgd and lars [0.9, or 0 if the compression has its own: sign, dgc, "
                 "one_bit_adam]")
      ->check(CLI::Range(0.0, 0.9999));
  app.add_option("--seed", options.seed,
                 "Seed of the initial parameters and the order of the images")
      ->capture_default_str();
  app.add_option("--dtype", options.dtype, "Type of parameters and images")
      ->check(CLI::IsMember({"float32", "float64", "bfloat16"}))
      ->capture_default_str();
  add_device(app, options.device);
  app.add_option(
         "--schedule", options.schedule,
         "Which gradients travel together and when: " + names_of(paceline::schedule::policies()))
      ->capture_default_str();
  app.add_option("--compression", options.compression,
                 "How gradients are compressed: none, or a method such as fp16, int8, "
                 "top_k:ratio=0.01; with several values, such as top_k:ratio=0.01/0.001/0.1, each "
                 "tensor has one of them, chosen again as training goes on")
      ->capture_default_str();
  app.add_option(
         "--aggregate", options.aggregate,
         "Who averages the gradients: the workers (collective), the servers of "
         "`paceline run --servers N` (server), or the faster by a forecast (automatic); the "
         "bits are the same")
      ->capture_default_str();
  app.add_option("--synchrony", options.synchrony,
                 "How replicas are kept in step, with settings, such as local_sgd:period=8: " +
                     names_of(paceline::strategy::strategies()))
      ->capture_default_str();
  app.add_option("--precision", options.precision,
                 "Types in which a float32 model computes: none, o1 (libtorch chooses for each "
                 "operator), o2 (16 bits, with parameters of float32 beside it), with settings, "
                 "such as o2:dtype=fp16")
      ->capture_default_str();
  app.add_option("--non-finite", options.non_finite,
                 "What becomes of a step with a gradient that is NaN or infinite: throw ends the "
                 "run and names the gradient, skip leaves the step out [a loss that is not finite "
                 "ends the run]")
      ->check(CLI::IsMember({"throw", "skip"}));
  app.add_option("--zero", options.zero,
                 "What the workers divide among them: 0 nothing, 1 the optimizer's state, 2 "
                 "gradients too, 3 parameters too")
      ->check(CLI::Range(0, 3))
      ->capture_default_str();
  app.add_option("--forecast", options.forecast,
                 "Tell what a step of this synchrony should take on these links, if it computes "
                 "for so many seconds (as long as a step of --synchrony none takes)")
      ->check(CLI::Range(1e-9, 1e6));
  app.add_option("--portion", options.portion,
                 "Images that a worker is given at a time by --optimizer sandblaster")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1'000'000'000}))
      ->capture_default_str();
  auto* const pace =
      app.add_option("--pace", options.pace, "Milliseconds that a step takes at least, by sleeping")
          ->check(CLI::Range(0.001, 1e6));
  app.add_option("--slow", options.slow,
                 "RANK:FACTOR makes the pace of a rank longer; drawn:FACTOR that of one which the "
                 "seed draws in each step")
      ->check(CLI::Validator(complaint_about_slow, "RANK:FACTOR"))
      ->needs(pace);
  app.add_option("--corrupt", options.corrupt,
                 "RANK:FACTOR multiplies the loss of a rank by FACTOR, or by nan, before backward")
      ->check(CLI::Validator(complaint_about_corruption, "RANK:FACTOR"));
  app.add_option("--threads", options.threads,
                 "Threads that compute in each worker [OMP_NUM_THREADS]")
      ->check(kPositive);
  app.add_option("--metrics", options.metrics,
                 "Write JSON lines to this file; the last one is the summary");
  app.add_option("--tensorboard", options.tensorboard,
                 "Write an events file for TensorBoard into this folder");
  app.add_option("--prometheus", options.prometheus,
                 "Serve figures at [HOST:]PORT, worker r of a host at PORT + r [127.0.0.1]")
      ->check(CLI::Validator(is_address, "[HOST:]PORT"));
  app.add_option("--trace", options.trace,
                 "Write a trace of all workers to this file, for https://ui.perfetto.dev: Chrome's "
                 "JSON, or Perfetto's own format if the name ends in .pftrace");
  app.add_option("--save", options.save,
                 "Write the trained parameters to this file: raw little-endian numbers, in the "
                 "order of registration");
  auto* const checkpoint_dir = app.add_option(
      "--checkpoint-dir", options.checkpoint_dir,
      "Save checkpoints into this folder, from which a later run can go on; the last "
      "step is saved too");
  app.add_option("--checkpoint-every", options.checkpoint_every, "Steps between two checkpoints")
      ->check(kPositive)
      ->needs(checkpoint_dir)
      ->capture_default_str();
  std::string resume;
  app.add_flag("--resume", resume,
               "Go on from the newest checkpoint in --checkpoint-dir, with the other options as "
               "they were; --resume=new begins at step 0 and sets the checkpoints there aside")
      ->check(CLI::IsMember({"true", "new"}))
      ->type_name("")
      ->needs(checkpoint_dir);
  app.add_option("--data", options.data, "Folder of the four files of the data set")
      ->capture_default_str();
  try {
    app.parse(argc, argv);
    if (!resume.empty())
      options.resume = resume == "new" ? paceline::Resume::anew : paceline::Resume::yes;
    if (const auto complaint = complaint_about_optimizer(options); !complaint.empty())
      throw CLI::ValidationError(complaint);
    if (const auto complaint = complaint_about_full_batch(options); !complaint.empty())
      throw CLI::ValidationError(complaint);
    if (const auto complaint = complaint_about_pipeline(options); !complaint.empty())
      throw CLI::ValidationError(complaint);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;  // 0: --help
  }
  return -1;
}

OptimizerSettings optimizer_settings_of(const Options& options) {
  namespace compress = paceline::compress;
  const OptimizerChoice& optimizer = optimizer_of(options);
  double learning_rate =
      optimizer.learning_rate > 0 ? optimizer.learning_rate : default_learning_rate(options.model);
  double momentum = optimizer.has_momentum ? 0.9 : 0;
  bool is_of_compression = false;
  const auto compression =
      compress::parse_compression(options.compression, compress::built_in_methods());
  if (compression && compression.value().method.outcome == compress::Method::Outcome::direction) {
    const double suited = compression.value().method.learning_rate;
    if (suited > 0) learning_rate = suited;
    momentum = 0;
    is_of_compression = !options.learning_rate || !options.momentum;
  }
  return {options.learning_rate.value_or(learning_rate), options.momentum.value_or(momentum),
          is_of_compression};
}
