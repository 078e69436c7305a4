// Route: the carrier that takes a call to its end. It follows from facts that all ranks of a group
// share (group/choose_route.h), so that all take the same one for calls that match.
#pragma once

#include <cstdint>
#include <string_view>

namespace paceline::collective {

enum class Route : std::uint8_t {
  programs,  // messages, or reads of a peer's memory, as a program says (carrier/program_carrier.h)
  board,     // a board in shared memory (carrier/board_carrier.h)
  device_kernels,  // that reach all ranks' device memory (carrier/device_kernel_carrier.h)
  links,           // a frame from each rank to each (carrier/link_carrier.h)
  gathered,        // the frames of the agreement carry the inputs (carrier/gathered_inputs.h)
  engine,          // another project's library (engine/engine.h)
  offered,         // that library, if all ranks offer the call to it; else programs
};

constexpr std::string_view name_of(Route route) {
  switch (route) {
    case Route::board: return "board";
    case Route::device_kernels: return "device kernels";
    case Route::links: return "links";
    case Route::gathered: return "gathered";
    case Route::engine: return "engine";
    case Route::offered: return "nccl";  // the only one to which calls are offered
    default: return "programs";
  }
}

// The ranks post these calls (carrier/carrier.h); a program carries them where one cannot.
constexpr bool is_posted(Route route) {
  return route == Route::board || route == Route::device_kernels || route == Route::links;
}

}  // namespace paceline::collective
