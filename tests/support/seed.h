// The seeds of random tests: the same in every run, or, where PACELINE_SEED is set, others that
// follow from it. The night sets it (scripts/nightly); a test that fails prints it.
#pragma once

#include <cstdint>

namespace paceline::test {

// A random test draws its numbers from seed(its own number). THREAD: any.
std::uint64_t seed(std::uint64_t own);

}  // namespace paceline::test
