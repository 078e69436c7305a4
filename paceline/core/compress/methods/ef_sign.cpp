#include "paceline/core/compress/codecs/ef_sign.h"

#include "paceline/core/compress/averaging/gathered_average.h"
#include "paceline/core/compress/averaging/two_stage_average.h"
#include "paceline/core/compress/methods/method_catalogue.h"

namespace paceline::compress::catalogue {
namespace {

std::unique_ptr<Averaging> make(const AveragedTensor& part, const Settings& settings) {
  if (settings.on("path")) return two_stage_average(part);
  return gathered_average(part, ef_sign_codec());
}

}  // namespace

Method ef_sign() {
  return {.name = "ef_sign",
          .summary = "signs times the mean magnitude, with error feedback",
          .reference = "Karimireddy et al., Error Feedback Fixes SignSGD, ICML 2019",
          .settings = {{.name = "path",
                        .standard = 0,
                        .meaning = "each rank decodes all payloads, or owners of chunks add up",
                        .whole = true,
                        .words = {"gather", "owners"}}},
          .make = make};
}

}  // namespace paceline::compress::catalogue
