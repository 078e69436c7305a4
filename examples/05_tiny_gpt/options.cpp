#include "options.h"

#include <CLI/CLI.hpp>

#include "../device_choice.h"
#include "../stage_choices.h"
#include "stage_options.h"

namespace tiny_gpt {
namespace {

const auto kPositive = CLI::Range(std::int64_t{1}, std::int64_t{1} << 40U, "at least 1");

std::string complaint_about_model(const Options& model) {
  if (model.features % model.heads != 0)
    return "--features " + std::to_string(model.features) + " is no multiple of --heads " +
           std::to_string(model.heads) + ", among which features are divided";
  if (model.heads % model.kv_heads != 0)
    return "--heads " + std::to_string(model.heads) + " is no multiple of --kv-heads " +
           std::to_string(model.kv_heads) + ", which share them out";
  return {};
}

}  // namespace

int read_options(int argc, char** argv, RunOptions& options) {
  CLI::App app(
      "Trains a small GPT on the characters of a text, alone or on the workers of `paceline run`.\n"
      "On two workers that share its layers:  paceline run -n 2 -- tiny_gpt --layout tp=2\n"
      "On two workers that have half each:     paceline run -n 2 -- tiny_gpt --layout pp=2 "
      "--micro-batches 4");
  Options& model = options.model;
  app.add_option("--text", options.text,
                 "File to learn from [the King James Bible of Debian's bible-kjv-text]")
      ->check(CLI::ExistingFile);
  app.add_option("--layout", options.layout,
                 "What the workers do: dp=N replicas of the model (data parallel), tp=N workers "
                 "that share the layers of one (tensor parallel), cp=N that share its sequences "
                 "(context parallel), pp=N stages, each with some of its layers (pipeline "
                 "parallel), or several, as dp=2,tp=2 [all are replicas]");
  app.add_option(
         "--pipeline", options.pipeline,
         "What each stage computes after what: " + names_of_schedules() +
             ", with settings, such as interleaved:chunks=2. pipedream and pipedream_2bw step by "
             "older weights and scale no gradient down; the others have the same bits [1f1b]")
      ->check(CLI::Validator(complaint_about_pipeline_schedule, "SCHEDULE"));
  add_micro_batches(app, options.micro_batches, "the sequences of a replica");
  app.add_option("--partition", options.partition,
                 "Which layers make each stage, such as 0-3,4-7; or the file of a profile of this "
                 "model (`paceline profile`) or automatic, which times the layers, to cut by their "
                 "times. The layers are 0 embedding, 1 "
                 "positions, then the blocks, norm and head. Under pipedream the head has a weight "
                 "of its own, which else is the embedding's [as many layers on each as on the "
                 "others, to one]");
  add_recompute(app, options.recompute);
  app.add_flag("--sequence-parallel", options.is_sequence_parallel,
               "Split the sequence too, between the layers that tp splits");
  app.add_option("--zero", options.zero_stage,
                 "What replicas divide among them: 1 the optimizer's state, 2 gradients too, 3 "
                 "parameters too (ZeRO) [0: nothing]")
      ->check(CLI::Range(0, 3));
  app.add_option("--features", model.features, "Width of the model")
      ->check(kPositive)
      ->capture_default_str();
  app.add_option("--heads", model.heads, "Heads of attention")
      ->check(kPositive)
      ->capture_default_str();
  auto* const kv =
      app.add_option("--kv-heads", model.kv_heads, "Heads of keys and values [as many as --heads]")
          ->check(kPositive);
  app.add_option("--layers", model.layers, "Blocks of attention and MLP")
      ->check(kPositive)
      ->capture_default_str();
  app.add_option("--length", model.length, "Characters that the model sees")
      ->check(kPositive)
      ->capture_default_str();
  app.add_option("--steps", options.steps, "Steps of training")
      ->check(kPositive)
      ->capture_default_str();
  app.add_option("--batch-size", options.batch_size, "Sequences in a step, all workers together")
      ->check(kPositive)
      ->capture_default_str();
  app.add_option(
         "--learning-rate", options.learning_rate,
         "Highest learning rate of AdamW: it rises for a tenth of the steps, then falls to a tenth")
      ->check(CLI::Range(1e-9, 1e3))
      ->capture_default_str();
  app.add_option("--max-grad-norm", options.max_grad_norm,
                 "Longer gradients are scaled down to this norm, except by --pipeline pipedream "
                 "and pipedream_2bw")
      ->check(CLI::Range(1e-9, 1e9))
      ->capture_default_str();
  app.add_option("--non-finite", options.non_finite,
                 "What becomes of a step with a gradient that is NaN or infinite: throw ends the "
                 "run and names the gradient, skip leaves the step out [a loss that is not finite "
                 "ends the run]")
      ->check(CLI::IsMember({"throw", "skip"}));
  app.add_option("--evaluate-every", options.evaluate_every,
                 "Steps between two looks at the held-out tenth of the text")
      ->check(kPositive)
      ->capture_default_str();
  app.add_option("--dropout", model.dropout,
                 "Probability of an activation to be dropped, behind attention and MLP")
      ->check(CLI::Range(0.0, 0.9))
      ->capture_default_str();
  app.add_option("--dtype", options.dtype, "Type of parameters and activations")
      ->check(CLI::IsMember({"float32", "float64"}))
      ->capture_default_str();
  add_device(app, options.device);
  app.add_option("--sample", options.sample, "Write so many characters when the training is done")
      ->check(kPositive);
  app.add_option("--seed", options.seed, "Seed of the initial parameters and the sequences")
      ->capture_default_str();
  app.add_option("--threads", options.threads,
                 "Threads that compute in each worker [OMP_NUM_THREADS]")
      ->check(kPositive);
  app.add_option("--metrics", options.metrics,
                 "Write JSON lines to this file; the last one is the summary");
  auto* const checkpoint_dir = app.add_option(
      "--checkpoint-dir", options.checkpoint_dir,
      "Save checkpoints into this folder, from which a later run can go on, with any layout; the "
      "last step is saved too");
  app.add_option("--checkpoint-every", options.checkpoint_every, "Steps between two checkpoints")
      ->check(kPositive)
      ->needs(checkpoint_dir)
      ->capture_default_str();
  std::string resume;
  app.add_flag(
         "--resume", resume,
         "Go on from the newest checkpoint in --checkpoint-dir; --resume=new begins at step 0 "
         "and sets the checkpoints there aside")
      ->check(CLI::IsMember({"true", "new"}))
      ->type_name("")
      ->needs(checkpoint_dir);
  try {
    app.parse(argc, argv);
    if (!resume.empty())
      options.resume = resume == "new" ? paceline::Resume::anew : paceline::Resume::yes;
    if (kv->empty()) model.kv_heads = model.heads;
    if (const auto complaint = complaint_about_model(model); !complaint.empty())
      throw CLI::ValidationError(complaint);
    if (const auto complaint = complaint_about_pipeline(options); !complaint.empty())
      throw CLI::ValidationError(complaint);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;  // 0: --help
  }
  return -1;
}

}  // namespace tiny_gpt
