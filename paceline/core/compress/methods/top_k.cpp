#include "paceline/core/compress/codecs/top_k.h"

#include "paceline/core/compress/averaging/gathered_average.h"
#include "paceline/core/compress/averaging/shared_index_average.h"
#include "paceline/core/compress/methods/method_catalogue.h"

namespace paceline::compress::catalogue {
namespace {

std::unique_ptr<Averaging> make(const AveragedTensor& part, const Settings& settings) {
  if (!settings.on("indices")) return gathered_average(part, top_k_codec(settings["ratio"]));
  return shared_index_average(
      part, {.ratio = settings["ratio"], .leader = true, .share = settings.as<float>("share")});
}

}  // namespace

Method top_k() {
  return {
      .name = "top_k",
      .summary = "the elements of the largest magnitude, with error feedback",
      .reference =
          "Aji and Heafield, Sparse Communication, EMNLP 2017; Chen et al., ScaleCom, NeurIPS 2020",
      .settings = {ratio_setting(0.01),
                   {.name = "indices",
                    .standard = 0,
                    .meaning =
                        "each rank's own, or those of a leader that changes with the step (CLT-k)",
                    .whole = true,
                    .words = {"own", "leader"}},
                   {.name = "share",
                    .standard = 1,
                    .least = 1e-3,
                    .most = 1,
                    .meaning = "weight of the new error in the residual (CLT-k)"}},
      .make = make};
}

}  // namespace paceline::compress::catalogue
