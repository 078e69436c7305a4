// Models how codecs, computation and the link share a rank's processors
// (docs/decisions/0019-processors-in-the-model.md).
#pragma once

namespace paceline::schedule {

// The demand for processors: one for each working codec and each thread of the computation, and
// `link` of one while a message holds the link.
struct ProcessorDemand {
  double workers = 0;
  double link = 0;
};

// The speed of each; 1 is the speed with a processor of its own.
struct ProcessorShare {
  double worker = 1, link = 1;
  bool operator==(const ProcessorShare&) const = default;
};

// Shares processors as an operating system does: a demand below an equal share is met in full, the
// others share the rest equally, and nothing in demand is left unused.
ProcessorShare share_of(double processors, const ProcessorDemand& demand);

}  // namespace paceline::schedule
