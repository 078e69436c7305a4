// Whether tests run in their long, normal or shortest form.
#pragma once

#include <cstdlib>

#include "tests/support/sanitized.h"

namespace paceline::test {

// Whether the long forms are asked for, by scripts/nightly or a person who sets the variable.
inline bool is_nightly() {
  return std::getenv("PACELINE_NIGHTLY") != nullptr;
}

// Whether the shortest forms are enough: by day under sanitizers, which look for wrong accesses and
// races, while the same tests find wrong values without them.
inline bool is_brief() {
  return kSanitized && !is_nightly();
}

}  // namespace paceline::test
