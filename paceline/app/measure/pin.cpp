#include "paceline/app/measure/pin.h"

namespace paceline::measure {

Pin::Pin(const Job& job) {
  if (job.local_world_size() != job.world_size()) return;
  if (::sched_getaffinity(0, sizeof before_, &before_) != 0) return;
  int skip = job.local_rank() % CPU_COUNT(&before_);
  for (std::size_t processor = 0; processor < CPU_SETSIZE; ++processor) {
    if (!CPU_ISSET(processor, &before_) || skip-- > 0) continue;
    cpu_set_t own;
    CPU_ZERO(&own);
    CPU_SET(processor, &own);
    pinned_ = ::sched_setaffinity(0, sizeof own, &own) == 0;
    return;
  }
}

Pin::~Pin() {
  if (pinned_) ::sched_setaffinity(0, sizeof before_, &before_);
}

}  // namespace paceline::measure
