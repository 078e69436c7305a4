// Request: one collective that this rank was asked for, ready to be carried out.
#pragma once

#include <memory>
#include <string_view>

#include "paceline/core/base/deadline.h"
#include "paceline/core/collective/call/call.h"
#include "paceline/core/collective/call/route.h"
#include "paceline/core/collective/call/work.h"
#include "paceline/core/collective/program/compiled_program.h"
#include "paceline/core/collective/program/partition.h"

namespace paceline::collective {

class StagedCall;  // staging/staged_call.h
class LateEngine;  // engine/late_engine.h

struct Request {
  Call call;
  Route route = Route::programs;
  std::shared_ptr<const ProgramPlan> plan;  // nullptr: no program carries anything
  ConstBuffer input;
  Buffer output;
  // The places of the plan's chunks in the input and in the output, in elements: the same lengths
  // in both. Of a chunk that this rank does not have there (contract.h) the offset means nothing.
  Partition input_chunks;
  Partition other_output_chunks;  // empty: in the output they lie as in the input
  Partition sent, taken;          // of all_to_all: the part for each rank, and the part from each
  int segments = 1;
  std::size_t piece = 0;  // elements of each chunk in one segment; 0: the chunk rule cuts each
                          // chunk into `segments`
  // Multiply the input by call.weight first, unless all ranks weigh the same.
  bool scale_input = false;
  // If the route is posted: the fingerprint of the call before a program was chosen for it.
  std::uint64_t fingerprint = 0;
  Deadline deadline;
  std::shared_ptr<Work::State> work;
  // The buffers lie on a device; null: on the host. Staged, input and output are places on the host.
  std::shared_ptr<StagedCall> staged;
  bool is_on_device = false;       // the buffers lay there when the call was made
  bool may_reach_devices = false;  // ranks may reach each other's device memory, as far as is known
  std::shared_ptr<LateEngine> late_engine;  // where the route is `offered`

  const Partition& output_chunks() const {
    return other_output_chunks.chunks.empty() ? input_chunks : other_output_chunks;
  }
  // The algorithm, or the route where no program carries the call.
  std::string_view carrier() const {
    const bool is_named = is_posted(route) || route == Route::offered;
    return is_named ? name_of(route) : std::string_view(call.algorithm);
  }
  Memory::Kind memory() const {
    const bool on_device =
        input.memory.kind == Memory::Kind::cuda || output.memory.kind == Memory::Kind::cuda;
    return on_device ? Memory::Kind::cuda : Memory::Kind::host;
  }
  Partition cut(const Partition& chunks, int segment) const {
    return piece > 0 ? chunks.piece(segment, piece) : chunks.segment(segment, segments);
  }
};

}  // namespace paceline::collective
