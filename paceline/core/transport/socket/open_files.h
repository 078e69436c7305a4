// The files that this process may have open at once (RLIMIT_NOFILE): sockets, pipes and shared
// memory are among them.
#pragma once

#include <cstddef>
#include <string_view>

#include "paceline/core/base/result.h"

namespace paceline::transport {

// Sees to it that this process may open `more` files beside those that it has open: raises its soft
// limit to the hard one if need be. The failure names the limit, the need and the remedy. `who`
// begins its text: "rank 3 of 64".
Result<> make_room_for_files(std::size_t more, std::string_view who);

}  // namespace paceline::transport
