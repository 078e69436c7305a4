// How long the forms of tests are.
#pragma once

#include <cstdlib>

#include "tests/support/sanitized.h"

namespace paceline::test {

// The long forms are wanted: by scripts/nightly, or by a person who sets the variable.
inline bool is_nightly() {
  return std::getenv("PACELINE_NIGHTLY") != nullptr;
}

// Under sanitizers the shortest forms will do by day: these look for wrong accesses and races, not
// for wrong values, which the same tests find without them.
inline bool is_brief() {
  return kSanitized && !is_nightly();
}

}  // namespace paceline::test
