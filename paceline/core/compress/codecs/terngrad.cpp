#include "paceline/core/compress/gathered_average.h"
#include "paceline/core/compress/method_catalogue.h"
#include "paceline/core/compress/qsgd.h"

namespace paceline::compress::catalogue {
namespace {

std::unique_ptr<Averaging> make(const Part& part, const Settings& settings) {
  return gathered_average(part, terngrad_codec(settings["clip"]), {.feedback = false});
}

}  // namespace

Method terngrad() {
  return {.name = "terngrad",
          .summary = "-1, 0 or 1 at random, times the largest magnitude",
          .reference = "Wen et al., TernGrad, NIPS 2017",
          .settings = {{.name = "clip",
                        .standard = 0,
                        .least = 0,
                        .most = 1e6,
                        .meaning = "larger values are cut to so many root mean squares; 0: none"}},
          .make = make};
}

}  // namespace paceline::compress::catalogue
