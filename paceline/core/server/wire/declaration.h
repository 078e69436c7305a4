// A worker's word for a table to the servers of its job: its TableSpec in bytes.
//
// It is text name, u64 elements, u8 dtype, text synchrony, text rule, u64 bytes of a part, i32
// replicas; a text is a u32 length and its characters. All is little-endian.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "paceline/core/base/bytes.h"
#include "paceline/core/server/table/table_spec.h"

namespace paceline::server {

std::vector<std::byte> encode(const TableSpec& spec);
// Trusts nothing that it reads. The failure (io) says that the bytes are none.
Result<TableSpec> parse_table_spec(Bytes bytes);

// The first setting in which two tables differ, and its values.
struct SpecDifference {
  std::string setting, one, other;
};
std::optional<SpecDifference> first_difference(const TableSpec& one, const TableSpec& other);

}  // namespace paceline::server
