// A worker's word for a table to the servers of its job: its TableSpec in bytes.
//
// It is text name, u64 elements, u8 dtype, text synchrony, text rule, u64 bytes of a part, i32
// replicas; a text is a u32 length and its characters. All is little-endian.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "paceline/core/base/bytes.h"
#include "paceline/core/server/table/table_spec.h"
#include "paceline/core/transport/frame/wire.h"

namespace paceline::server {

std::vector<std::byte> encode(const TableSpec& spec);
// Trusts nothing that it reads. The failure (io) says that the bytes are none.
Result<TableSpec> parse_table_spec(Bytes bytes);

// The first setting in which two tables differ, and its values.
struct SpecDifference {
  std::string setting, one, other;
};
std::optional<SpecDifference> first_difference(const TableSpec& one, const TableSpec& other);

// --- the same for tables of any kind ---

inline constexpr std::size_t kLongestWord = 4096;

// The settings of a table by name, as texts, in the order in which they are told.
using SpecSettings = std::vector<std::pair<std::string, std::string>>;
std::optional<SpecDifference> first_difference(const SpecSettings& one, const SpecSettings& other);

// An element type in which servers compute; nothing: the bytes name another one.
std::optional<Dtype> read_dtype(transport::WireReader& reader);

}  // namespace paceline::server
