// AnyTableSpec: a table that a worker of a job declares to its servers, one of numbers or a sparse
// one, and the form of the latter in bytes (that of the former is wire/declaration.h).
//
// A sparse table's declaration is text name, u64 width, u8 dtype, text synchrony, text rule, u64
// seed, f64 spread, i32 replicas, i32 admit_after, i64 evict_after; a text is a u32 length and its
// characters. All is little-endian.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "paceline/core/server/sparse/sparse_spec.h"
#include "paceline/core/server/table/table_spec.h"
#include "paceline/core/server/wire/declaration.h"

namespace paceline::server {

using AnyTableSpec = std::variant<TableSpec, SparseTableSpec>;

const std::string& name_of(const AnyTableSpec& spec);
std::vector<std::byte> encode(const SparseTableSpec& spec);
// Trusts nothing that it reads. The failure (io) says that the bytes are none.
Result<SparseTableSpec> parse_sparse_table_spec(Bytes bytes);

// The first setting in which two tables differ, and its values.
std::optional<SpecDifference> first_difference(const AnyTableSpec& one, const AnyTableSpec& other);

}  // namespace paceline::server
