// How the ranks of a group agree on the number that marks the frames of something new among them.
#pragma once

#include <cstdint>

#include "paceline/core/collective/group/communicator.h"
#include "paceline/core/membership/generation/generation.h"

namespace paceline::collective {

// It names what the number is for, in terms that all ranks with this color know.
struct NumberWish {
  std::uint64_t count = 0;  // how many numbers the group had asked for
  std::int64_t color = 0;   // ranks with equal colors get one number; below 0: this one needs none
};

// The color of a machine's number, which no split's is.
constexpr std::int64_t kMachineColor = std::int64_t{1} << 40;

// Returns a number, reserved in the generation, that is free on all ranks that want it; 0 without
// a color. `parent` is the group's own number. Collective: every rank of `group` calls it.
std::uint32_t agree_on_number(Communicator& group, membership::Generation& generation,
                              std::uint32_t parent, const NumberWish& wish);

}  // namespace paceline::collective
