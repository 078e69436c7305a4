#include "paceline/core/schedule/replay/shared_processors.h"

#include <sys/resource.h>

#include <algorithm>
#include <limits>

namespace paceline::schedule {
namespace {

double seconds_of(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

}  // namespace

double processors_of_each(const Communicator& group) {
  double least = std::numeric_limits<double>::infinity();
  for (const ProcessorPool& pool : group.topology().pools)
    least = std::min(least, pool.processors / static_cast<double>(pool.ranks.size()));
  return least;
}

double worked_seconds() {
  rusage usage = {};
  ::getrusage(RUSAGE_SELF, &usage);
  return seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
}

}  // namespace paceline::schedule
