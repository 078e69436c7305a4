// Declares a worker's tables to the servers of its job (machine/table_register.h tells how).
#pragma once

#include <cstdint>

#include "paceline/core/job/job.h"
#include "paceline/core/server/sparse/any_table_spec.h"
#include "paceline/core/server/table/table_numbers.h"

namespace paceline::server {

// Returns the number that marks the table's frames when all servers have it, which is when all
// workers have declared it. REQUIRES: a worker of a job with servers; one call of a job at a time.
// THREAD: any but the driver. THROWS Error: mismatch (the workers differ, one has left, or a server
// has no room), peer_lost, timed_out.
std::uint32_t declare(Job& job, const AnyTableSpec& spec);

}  // namespace paceline::server
