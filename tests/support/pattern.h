// Bytes that look random and are the same for the same seed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "paceline/core/base/seed.h"
#include "tests/support/seed.h"

namespace paceline::test {

inline std::vector<std::byte> pattern(std::size_t count, std::uint64_t seed) {
  SeededNumbers numbers(test::seed(seed));
  std::vector<std::byte> bytes(count);
  for (std::byte& b : bytes) b = static_cast<std::byte>(numbers());
  return bytes;
}

}  // namespace paceline::test
