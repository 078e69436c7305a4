#include "paceline/torch/pipeline/finite_steps.h"

#include <torch/torch.h>

#include <string>

#include "paceline/core/base/base.h"
#include "paceline/core/base/log.h"
#include "paceline/core/collective/group/values.h"

namespace paceline::pipeline {
namespace {

// The first parameter of this rank whose gradient is not finite; empty: there is none.
std::string first_not_finite(std::vector<Chunk>& chunks) {
  for (Chunk& chunk : chunks) {
    if (!chunk.parallel) continue;
    for (const auto& parameter : chunk.module->named_parameters())
      for (const at::Tensor& leaf : chunk.parallel->parameters(parameter.key()))
        if (leaf.grad().defined() && !replica::is_finite(leaf.grad()))
          return c10::str("'", parameter.key(), "' of stage ", chunk.stage);
  }
  return {};
}

void drop_gradients(std::vector<Chunk>& chunks) {
  for (Chunk& chunk : chunks) {
    if (!chunk.parallel) continue;
    for (const at::Tensor& leaf : chunk.parallel->parameters()) leaf.mutable_grad().reset();
    chunk.module->zero_grad();
  }
}

}  // namespace

FiniteSteps::FiniteSteps(const DataParallelOptions& options, DeviceMesh& mesh)
    : world_(mesh.world()), watch_(options.non_finite, options.non_finite_limit) {}

bool FiniteSteps::passes(std::vector<Chunk>& chunks, std::int64_t step) {
  const std::string own = first_not_finite(chunks);
  const double size = world_.size();
  const double lowest = world_.all_reduce(own.empty() ? size : world_.rank(), ReduceOp::min);
  if (lowest == size) {
    watch_.counted();
    return true;
  }
  const int rank = static_cast<int>(lowest);
  const std::string text =
      c10::str("step ", step, ": the mean gradient of ", broadcast_bytes(world_, own, rank),
               " on rank ", rank, " is not finite (NaN or infinite), the first of that rank's");
  const char* const advice =
      "look at the batch and the loss of that step, and at the learning rate";
  watch_.left_out();
  drop_gradients(chunks);
  if (watch_.throws()) {
    throw_misuse(
        c10::str(text, ". The step was left out on all stages; ", advice,
                 ". DataParallelOptions::non_finite = \"skip\" leaves such steps out by itself"));
  }
  if (watch_.is_at_limit()) {
    throw_misuse(c10::str(text, ", and ", watch_.in_a_row(),
                          " steps in a row were left out for such a reason, as many as "
                          "DataParallelOptions::non_finite_limit allows: the model learns nothing "
                          "any more. ",
                          advice));
  }
  if (watch_.is_time_for_a_line() && world_.rank() == 0) {
    warn(c10::str(text, ", and ", watch_.in_a_row(), " steps in a row were left out for such a ",
                  "reason: ", advice, ". After ", watch_.limit(), " of them the run ends"));
  }
  return false;
}

}  // namespace paceline::pipeline
