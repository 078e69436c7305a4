#include "paceline/core/compress/averaging/shared_index_average.h"
#include "paceline/core/compress/methods/method_catalogue.h"

namespace paceline::compress::catalogue {
namespace {

std::unique_ptr<Averaging> make(const AveragedTensor& part, const Settings& settings) {
  return shared_index_average(part,
                              {.ratio = settings["ratio"], .feedback = settings.on("feedback")});
}

}  // namespace

Method random_k() {
  return {.name = "random_k",
          .summary = "random elements, the same on all ranks",
          .reference = "Stich et al., Sparsified SGD with Memory, NeurIPS 2018",
          .settings = {ratio_setting(0.01), feedback_setting(true)},
          .make = make};
}

}  // namespace paceline::compress::catalogue
