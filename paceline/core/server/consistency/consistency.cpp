#include "paceline/core/server/consistency/consistency.h"

#include <fmt/format.h>

namespace paceline::server {

Result<ConsistencyChoice> parse_consistency(std::string_view text) {
  return parse_named("synchrony", text, built_in_consistencies());
}

double Pacing::share_of_rate(std::uint64_t staleness) const {
  switch (stale_rate) {
    case StaleRate::full: break;
    case StaleRate::damped: return 1 / (static_cast<double>(staleness) + 1);
    case StaleRate::paper: return 1 / std::max(1.0, static_cast<double>(staleness));
  }
  return 1;
}

Result<> check_pacing(const Pacing& pacing, int workers, int replicas) {
  if (pacing.spare >= workers)
    return Failure{Fault::misuse,
                   fmt::format("spare is {}, and there are {} workers: a step must wait for at "
                               "least one, so set spare to at most {}",
                               pacing.spare, workers, workers - 1),
                   {}};
  if (pacing.quorum > workers)
    return Failure{Fault::misuse,
                   fmt::format("quorum is {}, and there are {} workers: no step would ever close, "
                               "so set quorum to at most {}",
                               pacing.quorum, workers, workers),
                   {}};
  if (pacing.softsync > workers)
    return Failure{Fault::misuse,
                   fmt::format("softsync is {}, and there are {} workers: a step has at least one "
                               "push, so set softsync to at most {}",
                               pacing.softsync, workers, workers),
                   {}};
  if (pacing.remembers_pulls() && replicas > 1)
    return Failure{Fault::misuse,
                   fmt::format("it compares each push with what its worker pulled last, which only "
                               "one of the {} replicas of a range knows: give the table one, by "
                               "--replicas 1, or take staleness_aware or asp",
                               replicas),
                   {}};
  return Done{};
}

Setting update_setting() {
  return {.name = "update",
          .standard = 0,
          .meaning = "who steps: the server by its rule, or each worker its own copy",
          .whole = true,
          .words = {"server", "worker"}};
}

}  // namespace paceline::server
