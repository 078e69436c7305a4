#include "paceline/core/compress/catalogue.h"
#include "paceline/core/compress/level_sum_average.h"

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
          .reference = "specification B3; Li et al., THC, NSDI 2024",
          .settings = {{.name = "bits",
                        .standard = 0,
                        .meaning = "of the integers",
                        .whole = true,
                        .words = {"8", "16"}},
                       {.name = "bucket",
                        .standard = 512,
                        .least = 1,
                        .most = 0x1p32,
                        .meaning = "elements that share a scale",
                        .whole = true},
                       {.name = "feedback",
                        .standard = 0,
                        .meaning = "what was lost is added to the next gradient",
                        .whole = true,
                        .words = {"off", "on"}}},
          .make = make};
}

}  // namespace paceline::compress::catalogue
