#include "paceline/core/collective/carrier/carrier.h"

#include <fmt/format.h>

#include <cstring>

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

Failure unexpected(const Members& members, int peer, const transport::FrameHeader& header,
                   std::string_view why) {
  return members.failure(
      Fault::io,
      fmt::format("{} sent message {} of operation {}, {}: a bug, please report it",
                  members.name(peer), header.index, header.sequence, why),
      {peer});
}

}  // namespace paceline::collective
