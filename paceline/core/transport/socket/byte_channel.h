// A two-way stream of bytes to one peer: a socket, or two rings in shared memory. Neither call
// blocks.
#pragma once

#include <span>

#include "paceline/core/base/bytes.h"
#include "paceline/core/base/result.h"

namespace paceline::transport {

class ByteChannel {
 public:
  virtual ~ByteChannel() = default;
  // Returns how many bytes were read; 0 when there are none at present. Failure when no more will
  // come.
  virtual Result<std::size_t> read(MutableBytes into) = 0;
  // Returns how many bytes of the pieces, taken one after the other, were accepted; 0 when the
  // channel is full.
  virtual Result<std::size_t> write(std::span<const Bytes> pieces) = 0;
};

}  // namespace paceline::transport
