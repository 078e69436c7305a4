#include "paceline/core/compress/averaging/cast_average.h"
#include "paceline/core/compress/methods/method_catalogue.h"

namespace paceline::compress::catalogue {
namespace {

std::unique_ptr<Averaging> make(const AveragedTensor& part, const Settings&) {
  return cast_average(part, Dtype::bf16);
}

}  // namespace

Method bf16() {
  return {.name = "bf16",
          .summary = "values in 16 bits with the range of f32",
          .reference = "Kalamkar et al., A Study of BFLOAT16 for Deep Learning Training, 2019",
          .settings = {},
          .make = make,
          .cast = Dtype::bf16};
}

}  // namespace paceline::compress::catalogue
