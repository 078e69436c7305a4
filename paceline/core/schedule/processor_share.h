// How codecs, computation and the link share a rank's processors
// (docs/decisions/0019-processors-in-the-model.md).
#pragma once

namespace paceline::schedule {

// What wants processors: each codec that works, and each thread of the computation, one of them;
// the link, while a message holds it, `link` of one.
struct ProcessorDemand {
  double workers = 0;
  double link = 0;
};

// How fast each goes, 1 being as fast as by itself.
struct ProcessorShare {
  double worker = 1, link = 1;
  bool operator==(const ProcessorShare&) const = default;
};

// As an operating system shares them: who wants less than an equal share gets it all, the others
// share the rest equally. Nothing is left unused that somebody wants.
ProcessorShare share_of(double processors, const ProcessorDemand& demand);

}  // namespace paceline::schedule
