// Signs on their way to owners: the packed signs of a tensor are cut into one chunk of bytes for
// each rank (the chunk rule), and each rank sends every owner that owner's chunk. So no padding is
// ever compressed, whatever the length.
#pragma once

#include "paceline/core/compress/envelope.h"

namespace paceline::compress {

// Where the chunk of `owner` begins, in elements: a multiple of 8, or the end of the tensor.
std::size_t first_element_of(std::size_t elements, int ranks, int owner);

class SignChunks {
 public:
  // Messages have `prefix_bytes` (a scale) before their chunk.
  SignChunks(const Part& part, std::size_t prefix_bytes);

  // An owner's chunk: bytes of the packed signs, and the elements that they stand for.
  std::size_t first_byte(int owner) const;
  std::size_t bytes(int owner) const { return first_byte(owner + 1) - first_byte(owner); }
  std::size_t longest_bytes() const { return bytes(0); }
  std::size_t first_element(int owner) const {
    return first_element_of(part_.elements(), part_.ranks, owner);
  }
  std::size_t elements(int owner) const { return first_element(owner + 1) - first_element(owner); }

  // Sends `signs`, of the whole tensor, in chunks, each behind the prefix. Nothing: an overflow.
  Exchange send(const Envelope& envelope, Bytes prefix, std::optional<Bytes> signs);
  // Afterwards: whether no rank had an overflow; then what each sent of the own chunk.
  Result<bool> open(const Envelope& envelope);
  const std::vector<Bytes>& received() const { return payloads_; }

 private:
  std::size_t message_of(int owner) const;

  const Part part_;
  const std::size_t prefix_bytes_;
  std::vector<std::byte> sent_, received_;
  std::vector<Bytes> payloads_;
};

}  // namespace paceline::compress
