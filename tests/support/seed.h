// The seeds of random tests: the same in every run, unless PACELINE_SEED is set, from which they
// follow then. scripts/nightly sets it; a test that fails prints it.
#pragma once

#include <cstdint>

namespace paceline::test {

// A random test draws its numbers from seed(its own number). THREAD: any.
std::uint64_t seed(std::uint64_t own);

}  // namespace paceline::test
