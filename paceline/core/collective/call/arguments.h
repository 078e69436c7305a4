// Checks the buffers that a caller hands in. THROWS Error (misuse) that begins with
// `what`, the operation's name.
#pragma once

#include <string_view>

#include "paceline/core/base/bytes.h"
#include "paceline/core/base/reduce.h"
#include "paceline/core/collective/program/partition.h"

namespace paceline::collective {

void check_memory(ConstBuffer buffer, std::string_view what);  // there at all
void check_host_memory(ConstBuffer buffer, std::string_view what);
void check_reduction(std::string_view what, ReduceOp op, Dtype dtype);
// `part` lies at element `at` of `whole`, or the two do not overlap at all.
void check_overlap(std::string_view what, ConstBuffer whole, ConstBuffer part, std::size_t at);
void check_equal(std::string_view what, ConstBuffer in, ConstBuffer out);
// `whole` holds all parts, `part` that of `rank`.
void check_part(std::string_view what, ConstBuffer whole, ConstBuffer part, const Partition& parts,
                int rank);

}  // namespace paceline::collective
