#include "paceline/core/server/consistency/consistency.h"

#include <fmt/format.h>

namespace paceline::server {

Result<ConsistencyChoice> parse_consistency(std::string_view text) {
  return parse_named("synchrony", text, built_in_consistencies());
}

Result<> check_pacing(const Pacing& pacing, int workers) {
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
