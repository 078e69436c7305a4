#include "paceline/core/schedule/simulation/processor_share.h"

namespace paceline::schedule {

ProcessorShare share_of(double processors, const ProcessorDemand& demand) {
  const double workers = demand.workers;
  if (workers + demand.link <= processors) return {};
  if (workers == 0) return {.link = processors / demand.link};
  const double equal = processors / (workers + (demand.link > 0 ? 1 : 0));
  if (demand.link <= equal) return {.worker = (processors - demand.link) / workers};
  if (equal >= 1) return {.link = (processors - workers) / demand.link};
  return {.worker = equal, .link = equal / demand.link};
}

}  // namespace paceline::schedule
