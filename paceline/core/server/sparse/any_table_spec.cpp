#include "paceline/core/server/sparse/any_table_spec.h"

#include <fmt/format.h>

namespace paceline::server {
namespace {

SpecSettings settings_of(const SparseTableSpec& spec) {
  return {{"name", "'" + spec.name + "'"},
          {"width", std::to_string(spec.width)},
          {"dtype", std::string(name_of(spec.dtype))},
          {"synchrony", spec.synchrony},
          {"rule", spec.rule},
          {"seed", std::to_string(spec.seed)},
          {"spread", fmt::format("{}", spec.spread)},
          {"replicas", std::to_string(spec.replicas)},
          {"admit_after", std::to_string(spec.admit_after)},
          {"evict_after", std::to_string(spec.evict_after)}};
}

}  // namespace

const std::string& name_of(const AnyTableSpec& spec) {
  return std::visit([](const auto& one) -> const std::string& { return one.name; }, spec);
}

std::vector<std::byte> encode(const SparseTableSpec& spec) {
  return transport::WireWriter()
      .text(spec.name)
      .integer(static_cast<std::uint64_t>(spec.width))
      .integer(static_cast<std::uint8_t>(spec.dtype))
      .text(spec.synchrony)
      .text(spec.rule)
      .integer(spec.seed)
      .real(spec.spread)
      .integer(static_cast<std::int32_t>(spec.replicas))
      .integer(static_cast<std::int32_t>(spec.admit_after))
      .integer(spec.evict_after)
      .bytes();
}

Result<SparseTableSpec> parse_sparse_table_spec(Bytes bytes) {
  transport::WireReader reader(bytes);
  SparseTableSpec spec;
  spec.name = reader.text(kLongestWord);
  spec.width = reader.integer<std::uint64_t>();
  const auto dtype = read_dtype(reader);
  spec.synchrony = reader.text(kLongestWord);
  spec.rule = reader.text(kLongestWord);
  spec.seed = reader.integer<std::uint64_t>();
  spec.spread = reader.real();
  spec.replicas = reader.integer<std::int32_t>();
  spec.admit_after = reader.integer<std::int32_t>();
  spec.evict_after = reader.integer<std::int64_t>();
  if (!dtype || !reader.ok_and_empty())
    return Failure{
        Fault::io, "a malformed declaration of a sparse table: a bug, please report it", {}};
  spec.dtype = *dtype;
  return spec;
}

std::optional<SpecDifference> first_difference(const AnyTableSpec& one, const AnyTableSpec& other) {
  if (one.index() != other.index()) {
    const auto kind = [](const AnyTableSpec& spec) {
      return std::string(spec.index() == 0 ? "a table of numbers" : "a sparse table");
    };
    return SpecDifference{"kind", kind(one), kind(other)};
  }
  if (const auto* const dense = std::get_if<TableSpec>(&one))
    return first_difference(*dense, std::get<TableSpec>(other));
  return first_difference(settings_of(std::get<SparseTableSpec>(one)),
                          settings_of(std::get<SparseTableSpec>(other)));
}

}  // namespace paceline::server
