// Tells how much memory the system can still give.
#pragma once

#include <cstddef>

namespace paceline::transport {

// Bytes that the kernel takes to be available without swapping; unlimited where it does not say.
// A process that takes more than this may be given it, and be killed when it writes there.
std::size_t available_memory();

}  // namespace paceline::transport
