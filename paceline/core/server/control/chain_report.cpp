#include "paceline/core/server/control/chain_report.h"

#include "paceline/core/server/control/controller.h"
#include "paceline/core/transport/frame/wire.h"

namespace paceline::server {
namespace {

void write(const ChainReport& report, transport::WireWriter& writer) {
  writer.integer(report.chain)
      .integer(report.generation)
      .integer(static_cast<std::uint8_t>(report.is_ready))
      .integer(static_cast<std::uint8_t>(report.has_caught_up));
}

ChainReport read(transport::WireReader& reader) {
  ChainReport report;
  report.chain = reader.integer<std::uint32_t>();
  report.generation = reader.integer<std::uint64_t>();
  report.is_ready = reader.integer<std::uint8_t>() != 0;
  report.has_caught_up = reader.integer<std::uint8_t>() != 0;
  return report;
}

}  // namespace

machine::Message encode(const ChainReport& report) {
  return {.kind = static_cast<std::uint32_t>(ControlKind::report),
          .payload = encode(std::vector{report})};
}

std::optional<ChainReport> parse_chain_report(const machine::Message& message) {
  const auto all = parse_chain_reports(message.payload);
  return all && all->size() == 1 ? std::optional(all->front()) : std::nullopt;
}

std::vector<std::byte> encode(const std::vector<ChainReport>& reports) {
  transport::WireWriter writer;
  for (const ChainReport& report : reports) write(report, writer);
  return std::move(writer).take();
}

std::optional<std::vector<ChainReport>> parse_chain_reports(Bytes bytes) {
  transport::WireReader reader(bytes);
  std::vector<ChainReport> reports;
  while (reader.ok() && !reader.rest().empty()) reports.push_back(read(reader));
  return reader.ok() ? std::optional(reports) : std::nullopt;
}

}  // namespace paceline::server
