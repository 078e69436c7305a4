// Downpour SGD: every push is applied as it comes, and nobody waits for anybody. A push has the
// gradients of several steps, between which a worker steps a copy of its own (downpour_course.h).
// Dean et al., "Large Scale Distributed Deep Networks", NIPS 2012, algorithm 7.1.
#include "paceline/core/server/consistency/consistency.h"

namespace paceline::server::catalogue {
namespace {

constexpr double kMostSteps = 1e9;

std::vector<Setting> downpour_settings() {
  return {{.name = "push",
           .standard = 5,
           .least = 1,
           .most = kMostSteps,
           .meaning = "steps whose gradients make up a push",
           .whole = true},
          {.name = "fetch",
           .standard = 5,
           .least = 1,
           .most = kMostSteps,
           .meaning = "steps from one fetch of the servers' values to the next",
           .whole = true},
          {.name = "fetching",
           .standard = 0,
           .meaning = "asynchronous: the values come while a step computes, and are used from the "
                      "next one on; blocking: the worker waits for them",
           .whole = true,
           .words = {"asynchronous", "blocking"}},
          {.name = "warm_start",
           .standard = 100,
           .least = 0,
           .most = kMostSteps,
           .meaning = "steps that the first worker makes alone, while the others wait",
           .whole = true},
          {.name = "local_rate",
           .standard = kAutomatic,
           .least = 0,
           .most = 1e6,
           .meaning = "the rate of a worker's own steps between its fetches; 0: it makes none; "
                      "auto: that of the rule",
           .may_be_auto = true}};
}

}  // namespace

Consistency downpour() {
  return {.name = "downpour",
          .summary = "workers push what they have accrued, and fetch, each after so many steps",
          .reference = "Dean et al., NIPS 2012",
          .settings = downpour_settings(),
          .pacing =
              [](const Settings&) {
                return Pacing{.by_steps = false, .lead = kAnyLead, .shows_on_arrival = true};
              },
          .is_strategy = false};
}

}  // namespace paceline::server::catalogue
