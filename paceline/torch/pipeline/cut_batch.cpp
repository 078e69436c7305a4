#include "paceline/torch/pipeline/cut_batch.h"

#include <torch/utils.h>

#include <string>
#include <vector>

#include "paceline/core/base/base.h"
#include "paceline/torch/bridge/bridge.h"

namespace paceline::pipeline {
namespace {

std::vector<std::int64_t> lengths_of(std::int64_t samples, std::int64_t parts) {
  std::vector<std::int64_t> lengths(static_cast<std::size_t>(parts), samples / parts);
  for (std::int64_t i = 0; i < samples % parts; ++i) ++lengths[static_cast<std::size_t>(i)];
  return lengths;
}

}  // namespace

MicroBatches cut_batch(const Tensors* data, const at::Tensor* target, std::int64_t samples,
                       int parts) {
  if (target != nullptr &&
      (!target->defined() || target->dim() == 0 || target->size(0) != samples)) {
    throw_misuse(c10::str("Pipeline::step() got ",
                          target->defined() ? describe(*target) : std::string("no target"),
                          " where the last stage is, for a batch of ", samples,
                          " samples: hand in the target of each sample"));
  }
  MicroBatches batches{.samples = lengths_of(samples, parts)};
  std::int64_t begin = 0;
  for (const std::int64_t length : batches.samples) {
    Tensors& part = batches.data.emplace_back();
    if (data != nullptr)
      for (const at::Tensor& one : *data) part.push_back(one.narrow(0, begin, length));
    batches.target.push_back(target != nullptr ? target->narrow(0, begin, length) : at::Tensor());
    begin += length;
  }
  return batches;
}

}  // namespace paceline::pipeline
