// Asynchronous consensus ADMM: the table is the common model z, the mean of what workers contribute.
// A contribution counts when enough others have come too, and nobody stays away for too long.
// Zhang, Kwok, "Asynchronous Distributed ADMM for Consensus Optimization", ICML 2014.
#include "paceline/core/server/consistency/consistency.h"

namespace paceline::server::catalogue {

Consistency admm() {
  return {.name = "admm",
          .summary = "the mean of what workers contribute, in rounds of those who have come",
          .reference = "Zhang, Kwok, ICML 2014",
          .settings = {{.name = "barrier",
                        .standard = 2,
                        .least = 1,
                        .most = 1e6,
                        .meaning = "a round has so many workers at least; more than there are "
                                   "means all",
                        .whole = true},
                       {.name = "delay",
                        .standard = 5,
                        .least = 1,
                        .most = 1000,
                        .meaning = "each worker takes part in one of so many rounds; 1: in each",
                        .whole = true}},
          .pacing =
              [](const Settings& settings) {
                return Pacing{.by_steps = false,
                              .lead = kAnyLead,
                              .shows_on_arrival = true,
                              .rounds = coordination::PartialBarrierPace{
                                  .barrier = settings.as<int>("barrier"),
                                  .delay = settings.as<int>("delay")}};
              },
          .is_strategy = false};
}

}  // namespace paceline::server::catalogue
