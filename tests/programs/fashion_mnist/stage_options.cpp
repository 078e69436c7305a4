#include "stage_options.h"

#include "examples/stage_choices.h"
#include "paceline/core/pipeline/pipeline.h"
#include "paceline/torch/precision/precision.h"

std::string pipeline_option_of(const Options& options) {
  if (options.layout.find("pp=") != std::string::npos) return "--layout " + options.layout;
  if (!options.pipeline.empty()) return "--pipeline " + options.pipeline;
  if (options.micro_batches != 0) return micro_batches_as_given(options.micro_batches);
  if (!options.partition.empty()) return "--partition " + options.partition;
  if (!options.recompute.empty()) return "--recompute " + options.recompute;
  return {};
}

std::string layout_of(const Options& options, int world_size) {
  if (!options.layout.empty()) return options.layout;
  const bool has_turns = options.partition.find('x') != std::string::npos;
  return (has_turns ? "pp=" : "dp=") + std::to_string(world_size);
}

static bool may_skip_steps(const std::string& precision) {
  const auto choice = paceline::precision::parse_precision(precision);
  return choice && choice.value().has_scaler();
}

std::string complaint_about_pipeline(const Options& options) {
  const std::string asked = pipeline_option_of(options);
  if (asked.empty()) return {};
  struct Other {
    bool is_given;
    std::string option;
    const char* remedy;
  };
  const std::string& optimizer = options.optimizer;
  const Other others[] = {
      {options.synchrony != "synchronous", "--synchrony " + options.synchrony,
       "replicas of a stage are kept in step by --synchrony synchronous"},
      {options.compression != "none", "--compression " + options.compression,
       "take --compression none"},
      {options.aggregate != "collective", "--aggregate " + options.aggregate,
       "take --aggregate collective"},
      {options.zero > 1, "--zero " + std::to_string(options.zero),
       "take --zero 1, which divides the optimizer's state among the replicas of a stage"},
      {may_skip_steps(options.precision), "--precision " + options.precision,
       "take o1 or o2 with dtype=bf16, which needs no scale"},
      {optimizer == "l_bfgs" || optimizer == "sqn" || optimizer == "svrg" ||
           optimizer == "sandblaster",
       "--optimizer " + optimizer, "take sgd, adamw, lars or lamb, which need one pass a step"},
      {options.forecast.has_value(), "--forecast",
       "paceline plan pipeline forecasts the steps of stages"},
      {options.pace > 0, "--pace", "leave it out"},
      {!options.corrupt.empty(), "--corrupt " + options.corrupt, "leave it out"},
  };
  for (const Other& other : others)
    if (other.is_given)
      return other.option + " does not go with " + asked +
             ", by which the network is trained in stages and micro-batches: " + other.remedy;
  return {};
}

std::string complaint_about_pipeline_schedule(const std::string& text) {
  const auto choice = paceline::pipeline::parse_schedule(text);
  return choice ? "" : choice.error().what;
}
