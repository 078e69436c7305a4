#include "paceline/torch/replica/grads/mixed_precision.h"

#include <c10/util/StringUtil.h>

#include "paceline/core/base/base.h"

namespace paceline::replica {

void MixedPrecision::require_scaled() const {
  if (!is_unscaled()) return;
  throw_misuse(
      "the gradients of this step were unscaled already, by synchronize(): end each step with "
      "step(optimizer) before the next backward() or synchronize()");
}

// The precisions without a scale leave the same state behind.
void require_same_scale(bool has_scale, const JsonReader::Json& values,
                        const std::string& precision) {
  const bool had_scale = values.contains("numbers") && values.at("numbers").contains("scale");
  if (has_scale == had_scale) return;
  throw_misuse(c10::str("the checkpoint is of a training ", had_scale ? "with" : "without",
                        " fp16 and its scale of the loss, and this one has precision \"", precision,
                        "\""));
}

}  // namespace paceline::replica
