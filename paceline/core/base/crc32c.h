// CRC-32C (Castagnoli), by the processor's instruction if it has one.
#pragma once

#include <cstdint>

#include "paceline/core/base/bytes.h"

namespace paceline {

// `crc` continues an earlier sum: crc32c(ab) == crc32c(b, crc32c(a)).
std::uint32_t crc32c(Bytes bytes, std::uint32_t crc = 0);

}  // namespace paceline
