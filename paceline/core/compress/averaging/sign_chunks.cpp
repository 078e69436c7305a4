#include "paceline/core/compress/averaging/sign_chunks.h"

#include <algorithm>

#include "paceline/core/base/chunk.h"
#include "paceline/core/compress/kernels/sign_bits.h"
#include "paceline/core/compress/payload/message.h"

namespace paceline::compress {

std::size_t first_element_of(std::size_t elements, int ranks, int owner) {
  return std::min(elements, 8 * chunk_offset(sign_bytes(elements), ranks, owner));
}

SignChunks::SignChunks(const AveragedTensor& part, std::size_t prefix_bytes)
    : part_(part), prefix_bytes_(prefix_bytes) {
  std::size_t all = 0;
  for (int owner = 0; owner < part.ranks; ++owner) all += message_of(owner);
  sent_.resize(all);
  received_.resize(message_of(part.rank) * static_cast<std::size_t>(part.ranks));
}

std::size_t SignChunks::first_byte(int owner) const {
  return chunk_offset(sign_bytes(part_.elements()), part_.ranks, owner);
}

std::size_t SignChunks::message_of(int owner) const {
  return message_bytes(prefix_bytes_ + bytes(owner));
}

Exchange SignChunks::send(const Envelope& envelope, Bytes prefix, std::optional<Bytes> signs) {
  Exchange exchange{.kind = Exchange::Kind::all_to_all,
                    .input = const_buffer_of(sent_),
                    .output = buffer_of(received_)};
  exchange.receive_counts.assign(static_cast<std::size_t>(part_.ranks), message_of(part_.rank));
  MutableBytes rest = sent_;
  for (int owner = 0; owner < part_.ranks; ++owner) {
    const MutableBytes slot = rest.first(message_of(owner));
    rest = rest.subspan(slot.size());
    exchange.send_counts.push_back(slot.size());
    if (!signs) {
      seal_in(slot, envelope, std::nullopt);
      continue;
    }
    const Bytes chunk = signs->subspan(first_byte(owner), bytes(owner));
    const MutableBytes payload = payload_of(slot);
    std::ranges::copy(prefix, payload.begin());
    std::ranges::copy(chunk, payload.subspan(prefix.size()).begin());
    seal_in(slot, envelope, prefix.size() + chunk.size());
  }
  return exchange;
}

Result<bool> SignChunks::open(const Envelope& envelope) {
  bool all_there = true;
  payloads_.clear();
  for (int rank = 0; rank < part_.ranks; ++rank) {
    const std::size_t length = message_of(part_.rank);
    const Bytes slot = Bytes(received_).subspan(static_cast<std::size_t>(rank) * length, length);
    const auto payload = open_from(rank, slot, envelope);
    if (!payload) return payload.error();
    all_there = all_there && payload.value().has_value();
    payloads_.push_back(payload.value().value_or(Bytes()));
  }
  return all_there;
}

}  // namespace paceline::compress
