#include "paceline/app/measure/server_clocks.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

#include "paceline/core/base/deadline.h"
#include "paceline/core/base/seed.h"
#include "paceline/core/collective/group/communicator.h"
#include "paceline/core/server/server.h"

namespace paceline::measure {

double Slowness::factor_of(int of, std::int64_t clock, int ranks) const {
  if (rank >= 0) return of == rank ? factor : 1;
  SeededNumbers numbers(seed + static_cast<std::uint64_t>(clock));
  return numbers.next() % static_cast<std::uint64_t>(ranks) == static_cast<std::uint64_t>(of)
             ? factor
             : 1;
}

ClockFigures clocks_of_workers(Job& job, const ClockOptions& options) {
  server::Table table(job, {.name = fmt::format("bench/clocks/{}", options.synchrony),
                            .elements = options.elements,
                            .synchrony = options.synchrony,
                            .rule = "sgd"});
  std::vector<float> values(options.elements, 0), update(options.elements, 1);
  table.assign(buffer_of(values)).wait();
  table.pull(buffer_of(values)).wait();
  job.world().barrier().wait();
  const auto begin = Clock::now();
  while (table.clock() < options.clocks) {
    const double factor =
        options.slow ? options.slow->factor_of(job.rank(), table.clock(), job.world_size()) : 1;
    std::this_thread::sleep_for(std::chrono::duration<double>(options.pace * factor));
    server::Answer pushed = table.push(buffer_of(update), {.rate = 1e-3});
    table.pull(buffer_of(values)).wait();
    pushed.wait();
  }
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  std::vector<double> rate = {static_cast<double>(table.clock()) / seconds};
  job.world().all_reduce(buffer_of(rate), {.op = ReduceOp::average}).wait();
  std::vector<double> stale = {0, 0}, most = {0};  // versions and updates, summed up
  for (const auto& [versions, updates] : table.figures().staleness) {
    stale[0] += static_cast<double>(versions * updates);
    stale[1] += static_cast<double>(updates);
    most[0] = std::max(most[0], static_cast<double>(versions));
  }
  job.world().all_reduce(buffer_of(stale)).wait();
  job.world().all_reduce(buffer_of(most), {.op = ReduceOp::max}).wait();
  return {rate[0], stale[1] > 0 ? stale[0] / stale[1] : 0, most[0]};
}

}  // namespace paceline::measure
