#include "paceline/core/base/seed.h"

namespace paceline {

std::uint64_t mix(std::uint64_t fingerprint, std::uint64_t value) {
  return SeededNumbers(fingerprint ^ (value * 0xff51afd7ed558ccdu)).next();
}

}  // namespace paceline
