#include "paceline/torch/pipeline/finite_steps.h"

#include <torch/torch.h>

#include <cmath>
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

void unscale(std::vector<Chunk>& chunks, const precision::LossScale& scale) {
  for (Chunk& chunk : chunks)
    if (chunk.parallel) static_cast<void>(scale.unscale(chunk.parallel->parameters()));
}

void drop_gradients(std::vector<Chunk>& chunks) {
  for (Chunk& chunk : chunks) {
    if (!chunk.parallel) continue;
    for (const at::Tensor& leaf : chunk.parallel->parameters()) leaf.mutable_grad().reset();
    chunk.module->zero_grad();
  }
}

}  // namespace

FiniteSteps::FiniteSteps(const DataParallelOptions& options, DeviceMesh& mesh, MadeStages& stages)
    : world_(mesh.world()), stages_(stages), watch_(options.non_finite, options.non_finite_limit) {}

// Collective. A loss that was finite may overflow by the scale alone, which then falls.
bool FiniteSteps::is_scale_to_blame(std::optional<double> loss) const {
  const auto& scale = stages_.loss_scale();
  if (!scale || scale->scale() <= scale->floor()) return false;
  const bool is_finite = !loss || std::isfinite(*loss);
  return world_.all_reduce(is_finite ? 0.0 : 1.0, ReduceOp::max) == 0;
}

bool FiniteSteps::passes(std::optional<double> loss) {
  std::vector<Chunk>& chunks = stages_.chunks();
  auto& scale = stages_.loss_scale();
  if (scale) unscale(chunks, *scale);
  const std::string own = first_not_finite(chunks);
  const double size = world_.size();
  const double lowest = world_.all_reduce(own.empty() ? size : world_.rank(), ReduceOp::min);
  if (lowest == size) {
    watch_.counted();
    if (scale) scale->update(/*has_overflowed=*/false);
    return true;
  }
  const int rank = static_cast<int>(lowest);
  const std::string text = c10::str("step ", stages_.steps() + 1, ": the mean gradient of ",
                                    broadcast_bytes(world_, own, rank), " on rank ", rank,
                                    " is not finite (NaN or infinite), the first of that rank's");
  const char* const advice =
      "look at the batch and the loss of that step, and at the learning rate";
  const bool is_error = watch_.throws() && !is_scale_to_blame(loss);
  watch_.left_out();
  drop_gradients(chunks);
  if (scale) scale->update(/*has_overflowed=*/true);
  if (is_error) {
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
