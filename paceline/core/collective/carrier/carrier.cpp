#include "paceline/core/collective/carrier/carrier.h"

#include <fmt/format.h>

#include <cstring>

#include "paceline/core/collective/staging/staged_call.h"

namespace paceline::collective {

void scale_input(Request& request, const CallRecord& record, int rank) {
  request.scale_input = false;
  if (record.weigh_the_same()) return;
  const Buffer output = request.output;
  if (request.input.data != output.data && output.count > 0)
    std::memcpy(output.data, request.input.data, output.size_bytes());
  scale(request.call.dtype, output.bytes(), record.input_factor(rank));
  request.input = output;
}

Failure failed_device(const Members& members, const Request& request, const Failure& why) {
  return members.failure(
      why.fault,
      fmt::format("{} waits in {} for {}, which has failed: {}", members.name(members.rank()),
                  to_string(request.call, request.carrier()), request.staged->device().name(),
                  why.what),
      {members.rank()});
}

Failure unexpected(const Members& members, int peer, const transport::FrameHeader& header,
                   std::string_view why) {
  return members.failure(
      Fault::io,
      fmt::format("{} sent message {} of operation {}, {}: a bug, please report it",
                  members.name(peer), header.index, header.sequence, why),
      {peer});
}

}  // namespace paceline::collective
