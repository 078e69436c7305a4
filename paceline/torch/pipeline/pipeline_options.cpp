#include "paceline/torch/pipeline/pipeline_options.h"

#include <torch/utils.h>

#include "paceline/core/base/base.h"
#include "paceline/torch/precision/precision.h"

namespace paceline::pipeline {

void require_fitting(const ScheduleChoice& choice, const PipelineOptions& options) {
  const auto refuse = [&](const std::string& what, const char* why, const char* remedy) {
    throw_misuse(c10::str("schedule \"", options.schedule, "\" does not go with ", what, ": ", why,
                          "; ", remedy, ", or choose schedule \"1f1b\""));
  };
  const DataParallelOptions& training = options.training;
  const bool has_batches = choice.entry.versions(choice.settings) == VersionSync::double_buffered;
  if (!has_batches && options.micro_batches != 1) {
    refuse(c10::str("micro_batches ", options.micro_batches),
           "each mini-batch passes the stages as a whole and makes a version of the weights",
           "set micro_batches to 1, or take \"pipedream_2bw\", which adds micro-batches up");
  }
  if (training.max_grad_norm > 0) {
    refuse(c10::str("max_grad_norm ", training.max_grad_norm),
           "stages step at different times, so there is no norm of the whole model's gradient",
           "leave it 0");
  }
  const precision::PrecisionChoice precision =
      precision::parse_precision(training.precision).value();
  if (precision.has_scaler()) {
    refuse(c10::str("precision \"", training.precision, "\""),
           "a step that overflows is skipped on all stages, and they step at different times",
           "take \"o1\" in bf16");
  }
  if (precision.mode == precision::Mode::o2) {
    refuse(c10::str("precision \"", training.precision, "\""),
           "its masters of float32 would stand beside several versions of 16 bits",
           "take \"o1\" in bf16");
  }
  if (!training.non_finite.empty()) {
    refuse(c10::str("non_finite \"", training.non_finite, "\""),
           "a step is left out on all stages, and they step at different times", "leave it empty");
  }
  if (training.zero_stage > 0) {
    refuse(c10::str("zero_stage ", training.zero_stage),
           "each version of the weights is whole on its rank", "set zero_stage to 0");
  }
  if (training.optimizer) {
    refuse("training.optimizer",
           "its updates may be made as late as in the next forward, which runs on another version",
           "set PipelineOptions::optimizer");
  }
}

}  // namespace paceline::pipeline
