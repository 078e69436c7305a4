#include "paceline/core/collective/group/group_number.h"

#include <span>

#include "paceline/core/base/seed.h"

namespace paceline::collective {
namespace {

// A number that follows from what all ranks know; `attempt` leads to another one where this is in
// use.
std::uint32_t number_of(std::uint32_t parent, const NumberWish& wish, std::uint64_t attempt) {
  const std::uint64_t mixed =
      mix(mix(mix(parent, wish.count), static_cast<std::uint64_t>(wish.color)), attempt);
  return static_cast<std::uint32_t>(mixed >> 32) | 1;  // 0 is the world
}

}  // namespace

// All ranks try together until the number is free everywhere.
std::uint32_t agree_on_number(Communicator& group, membership::Generation& generation,
                              std::uint32_t parent, const NumberWish& wish) {
  const bool wants = wish.color >= 0;
  for (std::uint64_t attempt = 0;; ++attempt) {
    const std::uint32_t number = wants ? number_of(parent, wish, attempt) : 0;
    const bool reserved = wants && generation.reserve_group(number);
    std::uint8_t all_free = reserved || !wants ? 1 : 0;
    group.all_reduce(buffer_of(std::span(&all_free, 1)), {.op = ReduceOp::min}).wait();
    if (all_free != 0) return number;
    if (reserved) generation.release_group(number);
  }
}

}  // namespace paceline::collective
