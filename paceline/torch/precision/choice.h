// The choice that DataParallelOptions::precision makes, as a value.
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <string_view>

#include "paceline/core/base/result.h"
#include "paceline/torch/replica/replica.h"

namespace paceline::precision {

enum class Mode : std::uint8_t {
  none,  // all in the types of the model
  o1,    // float32 parameters; each operator computes in the type that libtorch's lists tell
  o2,    // the model in 16 bits, the optimizer in float32
};

struct Choice {
  Mode mode = Mode::none;
  at::ScalarType type = at::kBFloat16;  // of 16 bits
  double scale = 65536;                 // of the loss in the first step: a power of two
  int interval = 2000;                  // good steps until it doubles
  double floor = 1;                     // below which it does not fall: a power of two

  // Small gradients would be 0 in fp16; bf16 has the exponents of float32.
  bool has_scaler() const { return mode != Mode::none && type == at::kHalf; }
};

// Parses "none", "o1" or "o2", with settings behind a colon. A failure (misuse) says what is wrong
// and lists the valid names.
Result<Choice> parse_precision(std::string_view text);

// THROWS Error (misuse), by name: another option that does not go with this choice, or with
// max_grad_norm. `has_model`: DataParallel was made from a module.
void require_fitting(const Choice& choice, const DataParallelOptions& options, bool has_model);
// The same for a synchrony that comes later.
void require_fitting_synchrony(const Choice& choice, const DataParallelOptions& options);

}  // namespace paceline::precision
