// Timeout: a step waits for all workers, but no longer than some time after its first push.
#include "paceline/core/server/consistency/consistency.h"

namespace paceline::server::catalogue {

Consistency timeout() {
  return {.name = "timeout",
          .summary = "a step waits for the others only some time after its first push",
          .reference = "Zhang, Gupta, Lian, Liu, IJCAI 2016",
          .settings = {{.name = "milliseconds",
                        .standard = 50,
                        .least = 0,
                        .most = 1e9,
                        .meaning = "the time from a step's first push to its end at the latest"},
                       {.name = "late",
                        .standard = 0,
                        .least = 0,
                        .most = 2,
                        .meaning = "the fate of a push whose step has closed without it",
                        .whole = true,
                        .words = {"drop", "apply_late", "fold_into_next"}},
                       {.name = "quorum",
                        .standard = 1,
                        .least = 1,
                        .most = 1e6,
                        .meaning = "pushes without which no step closes",
                        .whole = true}},
          .pacing = [](const Settings& settings) {
            const auto nanoseconds =
                static_cast<machine::Time::rep>(settings["milliseconds"] * 1e6);
            return Pacing{.wait = machine::Time(nanoseconds),
                          .quorum = settings.as<int>("quorum"),
                          .late = static_cast<Late>(settings.as<int>("late"))};
          }};
}

}  // namespace paceline::server::catalogue
