#include "paceline/core/membership/store/endpoint.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "paceline/core/transport/frame/wire.h"

namespace paceline::membership {
namespace {

void write(transport::WireWriter& to, const Processors& processors) {
  to.text(processors.machine).integer(static_cast<std::uint32_t>(processors.allowed.words.size()));
  for (const std::uint64_t word : processors.allowed.words) to.integer(word);
  to.real(processors.quota.processors).integer(processors.quota.group);
}

// False where no rank can have told that.
bool read(transport::WireReader& from, Processors& processors) {
  processors.machine = from.text(256);
  const auto words = from.integer<std::uint32_t>();
  if (words > ProcessorSet::kMostWords) return false;
  for (std::uint32_t i = 0; i < words; ++i)
    processors.allowed.words.push_back(from.integer<std::uint64_t>());
  processors.quota = {.processors = from.real(), .group = from.integer<std::uint64_t>()};
  return processors.allowed.count() > 0 && processors.quota.processors > 0;
}

}  // namespace

std::vector<std::byte> encode(const Endpoint& e) {
  transport::WireWriter writer;
  writer.text(e.host)
      .text(e.unix_name)
      .text(e.tcp)
      .text(e.fabric)
      .integer(std::uint8_t{e.tcp_carries})
      .text(e.configuration);
  write(writer, e.processors);
  writer.text(e.profile).text(e.device.identity).integer(std::uint8_t{e.device.has_nccl});
  return std::move(writer).take();
}

Result<Endpoint> decode_endpoint(Bytes bytes, int rank) {
  transport::WireReader r(bytes);
  Endpoint e;
  e.host = r.text(1024);
  e.unix_name = r.text(1024);
  e.tcp = r.text(1024);
  e.fabric = r.text(64);
  e.tcp_carries = r.integer<std::uint8_t>() != 0;
  e.configuration = r.text(4096);
  const bool has_processors = read(r, e.processors), is_whole_so_far = r.ok();
  e.profile = r.text(kLongestProfile);
  e.device.identity = r.text(64);
  e.device.has_nccl = r.integer<std::uint8_t>() != 0;
  const auto malformed = [rank](std::string_view how) {
    return Failure{
        Fault::io, fmt::format("rank {} published a malformed endpoint{}", rank, how), {rank}};
  };
  if (is_whole_so_far && !has_processors)
    return malformed(
        fmt::format(": it must have 1 to {} processors and a share of their time above 0",
                    64 * ProcessorSet::kMostWords));
  if (!r.ok_and_empty()) return malformed("");
  return e;
}

std::string host_key(const std::string& machine) {
  struct stat network = {};
  ::stat("/proc/self/ns/net", &network);
  return fmt::format("{}/{}/{}", machine, network.st_ino, ::geteuid());
}

}  // namespace paceline::membership
