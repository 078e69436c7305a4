#include "paceline/torch/gradient/step_figures.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "paceline/torch/gradient/gradient_layout.h"

namespace paceline::gradient {
namespace {

double bytes_of_gradients(std::span<const replica::Parameter> dense) {
  double bytes = 0;
  for (const replica::Parameter& parameter : dense)
    bytes += static_cast<double>(parameter.tensor.numel()) *
             static_cast<double>(parameter.tensor.element_size());
  return bytes;
}

}  // namespace

StepFigures::StepFigures(std::span<const replica::Parameter> dense, const Communicator& group,
                         Job* job)
    : bytes_(bytes_of_gradients(dense)), recorder_(recorder_of(dense, group, job)) {}

void StepFigures::pass_accumulated() {
  if (recorder_) last_pass_ended_ = now();
}

void StepFigures::arrived(std::size_t i) {
  observed_.arrived.push_back(static_cast<int>(i));
  observed_.arrived_at.push_back(now());
}

void StepFigures::started(int messages) {
  if (!is_in_backward_) return;
  if (current_.launched_in_backward == 0 && messages > 0)
    current_.gradients_at_first_launch = current_.gradients;
  current_.launched_in_backward = messages;
}

void StepFigures::weighed(const StepWeights& weights) {
  current_.total_weight = weights.total;
  current_.shadows = weights.shadows;
  has_peers_ = weights.of_ranks.size() > 1;
}

void StepFigures::updated(double seconds) {
  update_seconds_ = seconds;
  updated_at_ = since_last_step_.seconds();
}

// The dense gradients count, uncompressed.
void StepFigures::report(replica::StepEnd end, const std::vector<schedule::Bucket>& buckets) {
  current_.buckets = static_cast<int>(buckets.size());
  current_.late = GradientLayout::late_in(buckets, observed_.arrived);
  current_.overflowed = end == replica::StepEnd::skipped;
  current_.waited_seconds = std::exchange(waited_, 0);
  current_.exchange = last_.exchange;
  if (has_peers_ && end != replica::StepEnd::over) {
    current_.exchange.period = 1;
    ++current_.exchange.exchanges;
    current_.exchange.bytes += bytes_ - current_.coded_bytes + current_.wire_bytes;
  }
  current_.step = last_.step + 1;
  last_ = current_;
  observed_.update = update_seconds_;
  observed_.seconds = since_last_step_.seconds();
}

void StepFigures::record(const replica::RankWeight& weight, int passes) {
  if (recorder_ == nullptr) return;
  // The last pass of a window is recorded: earlier ones are no part of its forward pass.
  schedule::ObservedStep pass = observed_;
  for (double& arrived : pass.arrived_at) arrived -= last_pass_ended_;
  const double samples = weight.said ? weight.weight / std::max(passes, 1) : 1;
  recorder_->add(pass, static_cast<int>(std::clamp(std::round(samples), 1.0, 1e9)));
}

void StepFigures::begin_next() {
  observed_ = {};
  current_ = {};
  is_in_backward_ = true;
  since_last_step_.restart();
  updated_at_ = last_pass_ended_ = 0;
}

std::unique_ptr<observe::ModelRecorder> recorder_of(std::span<const replica::Parameter> dense,
                                                    const Communicator& group, Job* job) {
  if (job == nullptr || job->rank() != 0 || group.rank() != 0) return nullptr;
  const std::string& file = job->record_file();
  if (file.empty()) return nullptr;
  std::vector<schedule::Tensor> tensors;
  for (const replica::Parameter& parameter : dense) {
    tensors.push_back({.bytes = parameter.tensor.nbytes(),
                       .rows = matrix_rows(parameter.tensor),
                       .name = parameter.name});
  }
  return std::make_unique<observe::ModelRecorder>(file, std::move(tensors));
}

}  // namespace paceline::gradient
