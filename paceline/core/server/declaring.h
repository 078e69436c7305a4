// Declares a worker's tables to the servers of its job (machine/table_register.h tells how).
#pragma once

#include <cstdint>

#include "paceline/core/job/job.h"
#include "paceline/core/server/table/table_spec.h"

namespace paceline::server {

// The groups of the declarations' messages, and of push_pull's; a table's own number is odd.
inline constexpr std::uint32_t kRegisterGroup = 0x74626c72, kSumGroup = 0x73756d72;

// Returns when all servers have the table, which is when all workers have declared it. REQUIRES: a
// worker of a job with servers; one call of a job at a time. THREAD: any but the driver. THROWS
// Error: mismatch (the workers differ), peer_lost, timed_out.
void declare(Job& job, const TableSpec& spec);

}  // namespace paceline::server
