#include "paceline/core/compress/catalogue.h"
#include "paceline/core/compress/shared_index_average.h"

namespace paceline::compress::catalogue {
namespace {

std::unique_ptr<Averaging> make(const Part& part, const Settings& settings) {
  return shared_index_average(part,
                              {.ratio = settings["ratio"], .feedback = settings.on("feedback")});
}

}  // namespace

Method random_k() {
  return {.name = "random_k",
          .summary = "elements that all ranks draw alike",
          .reference = "Stich et al., Sparsified SGD with Memory, NeurIPS 2018",
          .settings = {{.name = "ratio",
                        .standard = 0.01,
                        .least = 1e-6,
                        .most = 1,
                        .meaning = "share of the elements that is sent"},
                       {.name = "feedback",
                        .standard = 1,
                        .meaning = "what was lost is added to the next gradient",
                        .whole = true,
                        .words = {"off", "on"}}},
          .make = make};
}

}  // namespace paceline::compress::catalogue
