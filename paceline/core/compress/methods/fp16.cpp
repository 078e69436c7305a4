#include "paceline/core/compress/averaging/cast_average.h"
#include "paceline/core/compress/methods/method_catalogue.h"

namespace paceline::compress::catalogue {
namespace {

std::unique_ptr<Averaging> make(const AveragedTensor& part, const Settings&) {
  return cast_average(part, Dtype::f16);
}

}  // namespace

Method fp16() {
  return {.name = "fp16",
          .summary = "values in 16 bits of IEEE half precision",
          .reference = "Micikevicius et al., Mixed Precision Training, ICLR 2018",
          .settings = {},
          .make = make,
          .cast = Dtype::f16};
}

}  // namespace paceline::compress::catalogue
