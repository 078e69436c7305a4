#include "paceline/core/server/wire/declaration.h"

#include <utility>

#include "paceline/core/transport/frame/wire.h"

namespace paceline::server {
namespace {

constexpr std::size_t kLongestWord = 4096;

std::vector<std::pair<std::string, std::string>> settings_of(const TableSpec& spec) {
  return {{"name", "'" + spec.name + "'"},
          {"elements", std::to_string(spec.elements)},
          {"dtype", std::string(name_of(spec.dtype))},
          {"synchrony", spec.synchrony},
          {"rule", spec.rule},
          {"part_bytes", std::to_string(spec.part_bytes)},
          {"replicas", std::to_string(spec.replicas)}};
}

}  // namespace

std::vector<std::byte> encode(const TableSpec& spec) {
  return transport::WireWriter()
      .text(spec.name)
      .integer(static_cast<std::uint64_t>(spec.elements))
      .integer(static_cast<std::uint8_t>(spec.dtype))
      .text(spec.synchrony)
      .text(spec.rule)
      .integer(static_cast<std::uint64_t>(spec.part_bytes))
      .integer(static_cast<std::int32_t>(spec.replicas))
      .bytes();
}

Result<TableSpec> parse_table_spec(Bytes bytes) {
  transport::WireReader reader(bytes);
  TableSpec spec;
  spec.name = reader.text(kLongestWord);
  spec.elements = reader.integer<std::uint64_t>();
  const auto dtype = reader.integer<std::uint8_t>();
  spec.synchrony = reader.text(kLongestWord);
  spec.rule = reader.text(kLongestWord);
  spec.part_bytes = reader.integer<std::uint64_t>();
  spec.replicas = reader.integer<std::int32_t>();
  for (const Dtype known : {Dtype::f32, Dtype::f64}) {
    if (dtype != static_cast<std::uint8_t>(known)) continue;
    spec.dtype = known;
    if (reader.ok_and_empty()) return spec;
  }
  return Failure{Fault::io, "a malformed declaration of a table: a bug, please report it", {}};
}

std::optional<SpecDifference> first_difference(const TableSpec& one, const TableSpec& other) {
  const auto left = settings_of(one), right = settings_of(other);
  for (std::size_t i = 0; i < left.size(); ++i)
    if (left[i].second != right[i].second)
      return SpecDifference{left[i].first, left[i].second, right[i].second};
  return std::nullopt;
}

}  // namespace paceline::server
