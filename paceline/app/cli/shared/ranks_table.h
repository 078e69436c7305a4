// The table that `paceline top` draws: two looks at the ranks, an interval apart, as text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "paceline/core/observe/host_ranks.h"

namespace paceline::cli {

struct Look {
  std::vector<observe::HostRank> ranks;
  std::int64_t at_ns = 0;  // steady clock
};

// The rates between two looks, for each rank of the later one; 0 for a rank that was not there
// before.
struct RankRates {
  double cpu = 0;         // processors in use
  double waiting = 0;     // share of the time in which a thread waited
  double operations = 0;  // a second
  double pushes = 0;      // a second, that a server takes
  double steps = 0;       // a second
  double samples = 0;     // a second
  double bubble = 0;      // share of its time in a pipeline in which it waited for other stages
};
std::vector<RankRates> rates(const Look& before, const Look& now);

// "waits 3.2 s for all_reduce f32[10] sum", "computes, 2 operations in flight", "computes", "serves
// 8 ranges at clocks 3 to 5, 40 pushes a second". A rank of a pipeline has "stage 1, bubble 23 %: "
// before it, one that a signal stops "stopped (...): ".
std::string state_of(const observe::HostRank& rank, std::int64_t now_ns, const RankRates& rates);

// A line for each rank and server under a line for each job; no line is longer than `columns`
// characters. The slowest rank of a job, for which the others wait, is marked; while others wait
// for its start, those are named that have not called init().
std::string ranks_table(const Look& before, const Look& now, std::size_t columns);
std::string ranks_json(const Look& before, const Look& now);  // one line

}  // namespace paceline::cli
