// The choice that DataParallelOptions::precision makes, as a value.
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "paceline/core/base/result.h"
#include "paceline/torch/replica/replica.h"

namespace paceline::precision {

enum class Mode : std::uint8_t {
  none,  // all in the types of the model
  o1,    // float32 parameters; each operator computes in the type that libtorch's lists tell
  o2,    // the model in 16 bits, the optimizer in float32
};

struct PrecisionChoice {
  Mode mode = Mode::none;
  at::ScalarType type = at::kBFloat16;  // of 16 bits
  // The factor of the loss in the first step: a power of two. 0: the program scales the loss, and
  // unscales the gradients.
  double scale = 65536;
  int interval = 2000;  // good steps until it doubles
  double floor = 1;     // below which it does not fall: a power of two

  // Small gradients would be 0 in fp16; bf16 has the exponents of float32.
  bool has_scaler() const { return mode != Mode::none && type == at::kHalf && scale > 0; }
};

// Parses "none", "o1" or "o2", with settings behind a colon. A failure (misuse) says what is wrong
// and lists the valid names.
Result<PrecisionChoice> parse_precision(std::string_view text);

// THROWS Error (misuse), by name: another option that does not go with this choice, or with
// max_grad_norm. `has_model`: DataParallel was made from a module.
void require_fitting(const PrecisionChoice& choice, const DataParallelOptions& options,
                     bool has_model);
// The same for a synchrony that comes later.
void require_fitting_synchrony(const PrecisionChoice& choice, const DataParallelOptions& options);

// Whether this processor multiplies numbers of `type` itself; where it does not, libtorch converts
// them to float32 for each product. True where nobody knows: on processors other than x86.
bool processor_multiplies(at::ScalarType type);

// Returns the words that warn a user whose processor does not multiply numbers of the choice's
// type; empty where there is nothing to tell.
std::string slowness_of(const PrecisionChoice& choice, bool processor_multiplies);

}  // namespace paceline::precision
