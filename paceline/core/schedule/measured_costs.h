// What messages of gradients cost on these links, for the planning of schedules.
#pragma once

#include <span>
#include <string>

#include "paceline/core/job/job.h"
#include "paceline/core/schedule/costs.h"
#include "paceline/core/schedule/model.h"

namespace paceline::schedule {

struct Streamed {
  std::size_t longest = 64 << 20;  // of all gradients: no message is longer than this, or 64 KiB
  std::size_t columns = 0;         // elements in a row of what is encoded; 0: there are no rows
};

// Collective; the same on all ranks. Streams of all_reduces of 4 KiB to 64 MiB, carried as
// schedules are and on a fast link as long as the gradients (or 160 MiB), and the line through
// their times; what each codec (a method of compress/method_catalogue.h, as text) makes of long
// messages on these ranks, what work it takes, and what a message costs whatever its length. `job`:
// where memory comes from; it may be null. COST: some tenths of a second on a fast link; on a slow
// one seconds, below 50 Mbit/s or so a minute. THROWS Error: what ended the communication; misuse.
Costs measured_costs(Communicator& group, Job* job, std::span<const std::string> codecs = {},
                     const Streamed& streamed = {});

// As the gradients of these models are: no longer than one's all, with rows as the largest tensor
// has them.
Streamed streamed_like(std::span<const Model> models);

// The line with the least relative error through points (bytes, seconds), among those that rise
// and are not below 0 at 0: a longer message that was faster was luck.
// REQUIRES: two points at least, of different bytes, all seconds > 0.
struct CostPoint {
  double bytes = 0, seconds = 0;
};
topology::Line line_through(std::span<const CostPoint> points);

}  // namespace paceline::schedule
