#include "paceline/torch/gradient/recording.h"

#include <string>
#include <utility>
#include <vector>

#include "paceline/torch/gradient/gradient_schedule.h"

namespace paceline::parallel {

std::unique_ptr<observe::ModelRecorder> recorder_of(std::span<const Parameter> dense,
                                                    const Communicator& group, Job* job) {
  if (job == nullptr || job->rank() != 0 || group.rank() != 0) return nullptr;
  const std::string& file = job->record_file();
  if (file.empty()) return nullptr;
  std::vector<schedule::Tensor> tensors;
  for (const Parameter& parameter : dense) {
    tensors.push_back({.bytes = parameter.tensor.nbytes(),
                       .rows = matrix_rows(parameter.tensor),
                       .name = parameter.name});
  }
  return std::make_unique<observe::ModelRecorder>(file, std::move(tensors));
}

}  // namespace paceline::parallel
