#include "paceline/core/server/control/chain_report.h"

#include "paceline/core/server/control/controller.h"
#include "paceline/core/transport/frame/wire.h"

namespace paceline::server {

machine::Message encode(const ChainReport& report) {
  return {.kind = static_cast<std::uint32_t>(ControlKind::report),
          .payload = transport::WireWriter()
                         .integer(report.chain)
                         .integer(report.generation)
                         .integer(static_cast<std::uint8_t>(report.is_ready))
                         .integer(static_cast<std::uint8_t>(report.has_caught_up))
                         .bytes()};
}

std::optional<ChainReport> parse_chain_report(const machine::Message& message) {
  transport::WireReader reader(message.payload);
  ChainReport report;
  report.chain = reader.integer<std::uint32_t>();
  report.generation = reader.integer<std::uint64_t>();
  report.is_ready = reader.integer<std::uint8_t>() != 0;
  report.has_caught_up = reader.integer<std::uint8_t>() != 0;
  return reader.ok_and_empty() ? std::optional(report) : std::nullopt;
}

}  // namespace paceline::server
