// Contestants that work with the servers of a job.
#pragma once

#include <array>
#include <memory>
#include <string_view>

#include "paceline/app/measure/contestant.h"
#include "paceline/core/job/job.h"

namespace paceline::measure {

// A candidate's algorithm names the operation of servers. (Its own operation is all_reduce.)
//   push_pull  the servers form the sum of all workers' arrays (schedule/path/push_pull.h)
//   push       each worker adds an array to a table, which applies it at once, and has the answer
//   pull       each worker reads the table
inline constexpr std::array<std::string_view, 3> kServerOperations = {"push_pull", "push", "pull"};

// REQUIRES: a job with servers, f32 or f64. Every worker makes it, in the same order. `memory` is
// as for make_contestant. THROWS Error (misuse): no such operation.
std::unique_ptr<Contestant> make_server_contestant(Job& job, const Candidate& candidate,
                                                   MutableBytes memory);

}  // namespace paceline::measure
