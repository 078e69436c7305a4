#include "paceline/core/compress/averaging/gathered_average.h"
#include "paceline/core/compress/codecs/qsgd.h"
#include "paceline/core/compress/methods/method_catalogue.h"

namespace paceline::compress::catalogue {
namespace {

std::unique_ptr<Averaging> make(const AveragedTensor& part, const Settings& settings) {
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
                        .meaning = "values are cut to this number of root mean squares; 0: never"}},
          .make = make};
}

}  // namespace paceline::compress::catalogue
