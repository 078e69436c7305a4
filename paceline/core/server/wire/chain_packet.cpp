#include "paceline/core/server/wire/chain_packet.h"

#include <fmt/format.h>

namespace paceline::server {

Failure malformed_chain_packet(std::uint32_t kind, std::uint32_t range, std::string_view why) {
  return {Fault::io,
          fmt::format("a packet of kind {} between servers, for range {} of a table, {}: a bug, "
                      "please report it",
                      kind, range, why),
          {}};
}

}  // namespace paceline::server
