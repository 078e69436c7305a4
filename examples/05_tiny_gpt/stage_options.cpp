#include "stage_options.h"

#include "../stage_choices.h"
#include "paceline/train.h"

namespace tiny_gpt {

std::string pipeline_option_of(const RunOptions& options) {
  if (options.layout.find("pp=") != std::string::npos) return "--layout " + options.layout;
  if (!options.pipeline.empty()) return "--pipeline " + options.pipeline;
  if (options.micro_batches != 0) return micro_batches_as_given(options.micro_batches);
  if (!options.partition.empty()) return "--partition " + options.partition;
  if (!options.recompute.empty()) return "--recompute " + options.recompute;
  return {};
}

std::string layout_of(const RunOptions& options, int world_size) {
  if (!options.layout.empty()) return options.layout;
  const bool has_turns = options.partition.find('x') != std::string::npos;
  return (has_turns ? "pp=" : "dp=") + std::to_string(world_size);
}

std::string complaint_about_pipeline(const RunOptions& options) {
  const std::string asked = pipeline_option_of(options);
  if (asked.empty()) return {};
  const auto refused = [&](const std::string& option, const char* remedy) {
    return option + " does not go with " + asked +
           ", by which the model is trained in stages and micro-batches: " + remedy;
  };
  if (options.zero_stage > 1)
    return refused("--zero " + std::to_string(options.zero_stage),
                   "take --zero 1, which divides the optimizer's state among the replicas of a "
                   "stage");
  return {};
}

std::string complaint_about_pipeline_schedule(const std::string& text) {
  const auto choice = paceline::pipeline::parse_schedule(text);
  return choice ? "" : choice.error().what;
}

std::string names_of_schedules() {
  std::string names;
  for (const paceline::pipeline::Schedule& schedule : paceline::pipeline::schedules())
    names += (names.empty() ? "" : ", ") + std::string(schedule.name);
  return names;
}

}  // namespace tiny_gpt
