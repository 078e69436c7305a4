#include "paceline/core/compress/averaging/tree_selection_average.h"
#include "paceline/core/compress/methods/common_settings.h"
#include "paceline/core/compress/methods/method_catalogue.h"

namespace paceline::compress::catalogue {
namespace {

std::unique_ptr<Averaging> make(const Part& part, const Settings& settings) {
  return tree_selection_average(part,
                                {.ratio = settings["ratio"], .lossless = !settings.on("mode")});
}

}  // namespace

Method gtop_k() {
  return {
      .name = "gtop_k",
      .summary = "the largest elements of the sum, by a tree",
      .reference =
          "Shi et al., A Distributed Synchronous SGD Algorithm with Global Top-k "
          "Sparsification, ICDCS 2019",
      .settings = {ratio_setting(0.001),
                   {.name = "mode",
                    .standard = 0,
                    .meaning =
                        "keep elements that merges drop, or lose them as the paper's program does",
                    .whole = true,
                    .words = {"lossless", "paper"}}},
      .make = make,
      .shows_alone = false};
}

}  // namespace paceline::compress::catalogue
