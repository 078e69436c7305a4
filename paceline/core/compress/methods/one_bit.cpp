#include "paceline/core/compress/codecs/one_bit.h"

#include "paceline/core/compress/averaging/gathered_average.h"
#include "paceline/core/compress/methods/method_catalogue.h"

namespace paceline::compress::catalogue {
namespace {

std::unique_ptr<Averaging> make(const AveragedTensor& part, const Settings& settings) {
  const std::size_t columns = settings.on("means") ? part.columns : 1;
  return gathered_average(part, one_bit_codec(columns));
}

}  // namespace

Method one_bit() {
  return {.name = "one_bit",
          .summary = "signs, and the means of the positive and of the negative values",
          .reference = "Seide et al., 1-Bit Stochastic Gradient Descent, Interspeech 2014",
          .settings = {{.name = "means",
                        .standard = 0,
                        .meaning =
                            "means of the whole tensor, or of each column (pays from 512 rows on)",
                        .whole = true,
                        .words = {"tensor", "columns"}}},
          .make = make};
}

}  // namespace paceline::compress::catalogue
