// Measures the costs of gradient messages on these links, for the planning of schedules.
#pragma once

#include <span>
#include <string>

#include "paceline/core/collective/group/communicator.h"
#include "paceline/core/job/job.h"
#include "paceline/core/schedule/order/costs.h"
#include "paceline/core/schedule/order/model.h"

namespace paceline::schedule {

struct Streamed {
  // The bytes of all gradients, which bound a message (64 KiB at least).
  std::size_t longest = 64 << 20;
  std::size_t columns = 0;  // elements in a row of an encoded tensor; 0: no rows
};

// Collective, with the same result on all ranks. It times streams of all_reduces of 4 KiB to 64
// MiB, carried as schedules carry them and, on a fast link, as long as the gradients (or 160 MiB),
// and fits a line to their times. For each codec (a method of compress/methods/method_catalogue.h,
// as text) it measures its ratio and work on long messages of these ranks, and its fixed cost a
// message. `with_servers`, the job of `group`, has servers: their sums are timed as the all_reduces
// are. COST: some tenths of a second on a fast link;
// seconds on a slow one, below 50 Mbit/s or so a minute. THROWS Error: the failure that ended the
// communication; misuse.
Costs measured_costs(Communicator& group, std::span<const std::string> codecs = {},
                     const Streamed& streamed = {}, Job* with_servers = nullptr);

// Streams like the gradients of these models: no longer than all of one model, with the rows of the
// largest tensor.
Streamed streamed_like(std::span<const Model> models);

// The line with the least relative error through points (bytes, seconds), among those that rise and
// are not below 0 at 0: a longer message that was faster was chance. REQUIRES: two points at least,
// of different bytes, all seconds > 0.
struct CostPoint {
  double bytes = 0, seconds = 0;
};
topology::Line line_through(std::span<const CostPoint> points);

}  // namespace paceline::schedule
