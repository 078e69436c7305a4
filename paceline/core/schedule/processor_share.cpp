#include "paceline/core/schedule/processor_share.h"

namespace paceline::schedule {

ProcessorShare share_of(double processors, const ProcessorDemand& demand) {
  const double codecs = demand.codecs;
  if (codecs + demand.link <= processors) return {};
  if (codecs == 0) return {.link = processors / demand.link};
  const double equal = processors / (codecs + (demand.link > 0 ? 1 : 0));
  if (demand.link <= equal) return {.codec = (processors - demand.link) / codecs};
  if (equal >= 1) return {.link = (processors - codecs) / demand.link};
  return {.codec = equal, .link = equal / demand.link};
}

}  // namespace paceline::schedule
