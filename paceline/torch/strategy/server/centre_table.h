// The table in which servers hold what replicas are drawn to, and the words when the program writes
// into a model whose centre they hold.
#pragma once

#include <memory>
#include <string_view>

#include "paceline/core/job/job.h"
#include "paceline/core/server/server.h"
#include "paceline/torch/strategy/local/flat_model.h"

namespace paceline::strategy {

// Collective; its values are still to be assigned. Tables of one job have names of their own, by
// the order in which all ranks make them.
std::unique_ptr<server::Table> make_centre_table(Job& job, const FlatModel& model,
                                                 const server::ConsistencyChoice& choice);

// THROWS Error (misuse). `centre`: what the servers hold; "consensus".
[[noreturn]] void refuse_writes_under(const server::ConsistencyChoice& choice,
                                      std::string_view centre);

}  // namespace paceline::strategy
