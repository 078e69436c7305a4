// Any collective by one call, for tests that go through all of them.
#pragma once

#include <string_view>

#include "paceline/core/collective/group/communicator.h"

namespace paceline::test {

// Buffers have equal length, a multiple of the group's size; roots are rank 0, and parts are equal.
// If `algorithm` is empty, the communicator chooses.
inline Work call_any(Communicator& group, Operation operation, std::string_view algorithm,
                     Buffer in, Buffer out) {
  const auto ranks = static_cast<std::size_t>(group.size());
  const auto part = [ranks](Buffer whole) {
    return Buffer{whole.data, whole.count / ranks, whole.dtype};
  };
  switch (operation) {
    case Operation::all_reduce: return group.all_reduce(in, out, {.algorithm = algorithm});
    case Operation::reduce: return group.reduce(in, out, 0, {.algorithm = algorithm});
    case Operation::reduce_scatter:
      return group.reduce_scatter(in, part(out), {.algorithm = algorithm});
    case Operation::all_gather: return group.all_gather(part(in), out, {.algorithm = algorithm});
    case Operation::gather: return group.gather(part(in), out, 0, {.algorithm = algorithm});
    case Operation::scatter: return group.scatter(in, part(out), 0, {.algorithm = algorithm});
    case Operation::broadcast: return group.broadcast(out, 0, {.algorithm = algorithm});
    case Operation::all_to_all: return group.all_to_all(in, out, {.algorithm = algorithm});
    default: return group.barrier();
  }
}

}  // namespace paceline::test
