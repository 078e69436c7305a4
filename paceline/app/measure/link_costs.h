// What messages of gradients cost on these links, for the planning of schedules.
#pragma once

#include <span>
#include <string>

#include "paceline/core/membership/job.h"
#include "paceline/core/schedule/costs.h"

namespace paceline::measure {

// Collective; the same on all ranks: streams of all_reduces of 4 KiB to 64 MiB, carried as
// schedules are, and the line through their times. THROWS Error: what ended the communication.
schedule::LinkCosts measured_link_costs(Job& job);

// Collective; the same on all ranks: what a codec (a method of compress/catalogue.h, as text) makes
// of long messages on these ranks, what work each takes, and what a message costs whatever its
// length. THROWS Error as above, and misuse.
schedule::CodecCost measured_codec_cost(Job& job, const schedule::Costs& costs,
                                        const std::string& codec);

// The line with the least relative error through points (bytes, seconds); never below 0 at 0.
// REQUIRES: two points at least, of different bytes, all seconds > 0.
struct CostPoint {
  double bytes = 0, seconds = 0;
};
topology::Line line_through(std::span<const CostPoint> points);

}  // namespace paceline::measure
