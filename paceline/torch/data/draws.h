// Samples that are drawn with replacement, by random numbers without a state: each draw is a
// function of the seed, the epoch and its place, so all ranks agree on it without a message, and a
// run that is resumed draws it again, on any number of ranks.
#pragma once

#include <cstdint>

namespace paceline::data {

// The sample at place `place` of epoch `epoch`: one of 0..samples-1, each with exactly the same
// probability. Two words of Philox4x32-10, o0 + 2^32 o1 of the counter (place, attempt, 0) under
// the key (seed, epoch), of which the low 32 bits count, are multiplied by `samples`; the high 64
// bits are the sample. Where the low ones are below 2^64 mod samples the next attempt is made
// instead. REQUIRES: samples > 0.
std::int64_t drawn_sample(std::uint64_t place, std::int64_t samples, std::uint64_t seed,
                          std::int64_t epoch);

}  // namespace paceline::data
