// A rank says this when it calls a collective, so that a call that differs is seen before any data
// is touched.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/core/base/reduce.h"
#include "paceline/core/collective/program/operation.h"
#include "paceline/core/transport/memory/segment_table.h"

namespace paceline::collective {

struct Call {
  // These fields must be equal on all ranks.
  Operation operation = Operation::barrier;
  ReduceOp op = ReduceOp::sum;  // of reductions
  Dtype dtype = Dtype::u8;
  bool weighted = false;
  std::int32_t root = 0;
  // Elements of the whole vector: the buffer, the input of reduce_scatter or scatter, the result of
  // all_gather or gather; of all_to_all the input, with counts: 0.
  std::uint64_t count = 0;
  std::string algorithm;  // the chosen one; empty where nothing is carried
  // Elements for each rank where they are not those of the chunk rule; empty: they are. Of
  // all_to_all: what this rank sends to each, which must be what that rank expects.
  std::vector<std::uint64_t> counts;

  // These fields each rank tells the others.
  std::vector<std::uint64_t> expected;  // all_to_all with counts: what this rank expects from each
  double weight = 1;
  transport::SharedRegion output;  // where its output lies, for stores; segment 0: nowhere
  std::vector<std::byte> note;
  // The rank's buffers lie on a device, and its group's late engine (engine/late_engine.h) takes
  // the call if all ranks offer it. Of the first rank: with the library's invitation, while one is
  // needed.
  std::optional<std::vector<std::byte>> offer;
};

constexpr std::size_t kLongestNote = 64 << 10;
constexpr std::size_t kLongestInvitation = 4 << 10;

// `a` by rank `rank_a`, `b` by rank `rank_b` of the group.
bool matches(const Call& a, int rank_a, const Call& b, int rank_b);
std::uint64_t fingerprint(const Call& call);     // equal for calls that match
inline std::size_t bytes_of(const Call& call) {  // of the whole vector
  return call.count * size_of(call.dtype);
}
// "all_reduce f32[10] sum by ring", "broadcast u8[3] from root 2"; `carrier`: what carries it.
std::string to_string(const Call& call, std::string_view carrier);
inline std::string to_string(const Call& call) {
  return to_string(call, call.algorithm);
}

std::vector<std::byte> encode(const Call& call);
std::optional<Call> decode_call(Bytes payload);  // nothing when malformed

}  // namespace paceline::collective
