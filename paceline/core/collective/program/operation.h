// The operations that ranks carry out together. The numbers are part of the wire format
// (docs/wire.md).
#pragma once

#include <cstdint>
#include <string_view>

namespace paceline {

enum class Operation : std::uint8_t {
  all_reduce = 1,
  reduce_scatter,
  all_gather,
  broadcast,
  barrier,
  send,
  recv,
  reduce,
  gather,
  scatter,
  all_to_all,
};

std::string_view name_of(Operation operation);  // "unknown" for a number that names none
// Adds up contributions: all_reduce, reduce_scatter, reduce.
bool is_reduction(Operation operation);
bool has_root(Operation operation);  // one rank is special: broadcast, reduce, gather, scatter

}  // namespace paceline
