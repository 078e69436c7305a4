// Several methods have these settings. Each method gives its own default.
#pragma once

#include "paceline/core/compress/methods/method_catalogue.h"

namespace paceline::compress {

inline Setting ratio_setting(double standard) {
  return {.name = "ratio",
          .standard = standard,
          .least = 1e-6,
          .most = 1,
          .meaning = "share of the elements that is sent"};
}

inline Setting bucket_setting() {
  return {.name = "bucket",
          .standard = 512,
          .least = 1,
          .most = 0x1p32,
          .meaning = "elements that share a scale",
          .whole = true};
}

inline Setting feedback_setting(bool standard) {
  return {.name = "feedback",
          .standard = standard ? 1.0 : 0.0,
          .meaning = "what was lost is added to the next gradient",
          .whole = true,
          .words = {"off", "on"}};
}

}  // namespace paceline::compress
