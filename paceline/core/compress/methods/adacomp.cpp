#include "paceline/core/compress/averaging/binned_average.h"
#include "paceline/core/compress/methods/method_catalogue.h"
#include "paceline/core/compress/payload/binned_signs.h"

namespace paceline::compress::catalogue {
namespace {

std::unique_ptr<Averaging> make(const Part& part, const Settings& settings) {
  return binned_average(part, settings.as<std::size_t>("bin"));
}

}  // namespace

Method adacomp() {
  return {.name = "adacomp",
          .summary = "the large values of each bin, all with one magnitude",
          .reference = "Chen et al., AdaComp, AAAI 2018",
          .settings = {{.name = "bin",
                        .standard = 50,
                        .least = 1,
                        .most = kLongestBin,
                        .meaning = "elements of a bin, which are compared with each other",
                        .whole = true}},
          .make = make};
}

}  // namespace paceline::compress::catalogue
