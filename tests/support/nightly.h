// Whether the long forms of tests are wanted: by scripts/nightly, or by a person who sets the
// variable.
#pragma once

#include <cstdlib>

namespace paceline::test {

inline bool is_nightly() {
  return std::getenv("PACELINE_NIGHTLY") != nullptr;
}

}  // namespace paceline::test
