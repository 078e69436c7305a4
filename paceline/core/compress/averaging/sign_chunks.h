// Sends signs to their owners: the packed signs of a tensor are cut into one chunk of bytes for
// each rank (the chunk rule), and each rank sends every owner that owner's chunk. No padding is
// compressed, for any length.
#pragma once

#include "paceline/core/compress/averaging/envelope.h"

namespace paceline::compress {

// The first element of the chunk of `owner`: a multiple of 8, or the end of the tensor.
std::size_t first_element_of(std::size_t elements, int ranks, int owner);

class SignChunks {
 public:
  // Each message has `prefix_bytes` bytes (a scale) before its chunk.
  SignChunks(const AveragedTensor& part, std::size_t prefix_bytes);

  // An owner's chunk is given in bytes of the packed signs and in the elements that they stand for.
  std::size_t first_byte(int owner) const;
  std::size_t bytes(int owner) const { return first_byte(owner + 1) - first_byte(owner); }
  std::size_t longest_bytes() const { return bytes(0); }
  std::size_t first_element(int owner) const {
    return first_element_of(part_.elements(), part_.ranks, owner);
  }
  std::size_t elements(int owner) const { return first_element(owner + 1) - first_element(owner); }

  // Sends the `signs` of the whole tensor in chunks, each behind the prefix. No signs mean an
  // overflow.
  Exchange send(const Envelope& envelope, Bytes prefix, std::optional<Bytes> signs);
  // Call it after the exchange. Returns true if no rank had an overflow; received() then holds each
  // rank's signs of this rank's chunk.
  Result<bool> open(const Envelope& envelope);
  const std::vector<Bytes>& received() const { return payloads_; }

 private:
  std::size_t message_of(int owner) const;

  const AveragedTensor part_;
  const std::size_t prefix_bytes_;
  std::vector<std::byte> sent_, received_;
  std::vector<Bytes> payloads_;
};

}  // namespace paceline::compress
