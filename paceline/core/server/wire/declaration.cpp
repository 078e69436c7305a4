#include "paceline/core/server/wire/declaration.h"

namespace paceline::server {
namespace {

SpecSettings settings_of(const TableSpec& spec) {
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
  const auto dtype = read_dtype(reader);
  spec.synchrony = reader.text(kLongestWord);
  spec.rule = reader.text(kLongestWord);
  spec.part_bytes = reader.integer<std::uint64_t>();
  spec.replicas = reader.integer<std::int32_t>();
  if (!dtype || !reader.ok_and_empty())
    return Failure{Fault::io, "a malformed declaration of a table: a bug, please report it", {}};
  spec.dtype = *dtype;
  return spec;
}

std::optional<SpecDifference> first_difference(const TableSpec& one, const TableSpec& other) {
  return first_difference(settings_of(one), settings_of(other));
}

std::optional<SpecDifference> first_difference(const SpecSettings& one, const SpecSettings& other) {
  for (std::size_t i = 0; i < one.size(); ++i)
    if (one[i].second != other[i].second)
      return SpecDifference{one[i].first, one[i].second, other[i].second};
  return std::nullopt;
}

std::optional<Dtype> read_dtype(transport::WireReader& reader) {
  const auto dtype = reader.integer<std::uint8_t>();
  for (const Dtype known : {Dtype::f32, Dtype::f64})
    if (dtype == static_cast<std::uint8_t>(known)) return known;
  return std::nullopt;
}

}  // namespace paceline::server
