#include "paceline/core/compress/averaging/level_sum_average.h"
#include "paceline/core/compress/methods/common_settings.h"
#include "paceline/core/compress/methods/method_catalogue.h"

namespace paceline::compress::catalogue {
namespace {

std::unique_ptr<Averaging> make(const Part& part, const Settings& settings) {
  return level_sum_average(part, {.bits = settings.on("bits") ? 16 : 8,
                                  .bucket = settings.as<std::size_t>("bucket"),
                                  .feedback = settings.on("feedback")});
}

}  // namespace

Method int8() {
  return {.name = "int8",
          .summary = "integers under a scale that all ranks share; their sum is exact",
          .reference = "after Li et al., THC, NSDI 2024",
          .settings = {{.name = "bits",
                        .standard = 0,
                        .meaning = "bits of an integer",
                        .whole = true,
                        .words = {"8", "16"}},
                       bucket_setting(),
                       feedback_setting(false)},
          .make = make};
}

}  // namespace paceline::compress::catalogue
