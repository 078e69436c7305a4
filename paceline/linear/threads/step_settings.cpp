#include "paceline/linear/threads/step_settings.h"

#include "paceline/core/base/processors.h"

namespace paceline::linear {

std::vector<Setting> step_settings() {
  return {{.name = "threads",
           .standard = kAutomatic,
           .least = 1,
           .most = 256,
           .meaning = "threads that work at the same time; auto: the processors that this process "
                      "may use",
           .whole = true,
           .may_be_auto = true},
          {.name = "rate",
           .standard = 0.1,
           .least = 1e-12,
           .most = 1e6,
           .meaning = "of the first epoch's steps"},
          {.name = "decay",
           .standard = 0.9,
           .least = 0,
           .most = 1,
           .meaning = "by which the rate is multiplied after each epoch"}};
}

int threads_in(const Settings& settings) {
  const double threads = settings["threads"];
  return std::isnan(threads) ? own_processors().count() : static_cast<int>(threads);
}

StepRate step_rate_in(const Settings& settings) {
  return {.first = settings["rate"], .decay = settings["decay"]};
}

}  // namespace paceline::linear
