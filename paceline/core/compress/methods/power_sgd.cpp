#include "paceline/core/compress/averaging/cast_average.h"
#include "paceline/core/compress/averaging/low_rank_average.h"
#include "paceline/core/compress/methods/method_catalogue.h"

namespace paceline::compress::catalogue {
namespace {

std::unique_ptr<Averaging> make(const AveragedTensor& part, const Settings& settings) {
  if (!low_rank_pays(part, settings.as<int>("rank"), settings["min_rate"]))
    return cast_average(part, Dtype::f32);
  return low_rank_average(part, {.rank = settings.as<int>("rank"),
                                 .warm_start = !settings.on("start"),
                                 .feedback = settings.on("feedback"),
                                 .dense_steps = settings.as<std::uint32_t>("dense_steps")});
}

}  // namespace

Method power_sgd() {
  return {.name = "power_sgd",
          .summary = "a matrix of low rank, by one step of subspace iteration",
          .reference = "Vogels et al., PowerSGD, NeurIPS 2019",
          .settings = {{.name = "rank",
                        .standard = 2,
                        .least = 1,
                        .most = 1024,
                        .meaning = "rank of the factors",
                        .whole = true},
                       {.name = "start",
                        .standard = 0,
                        .meaning = "start each step from the last one's factors, or at random",
                        .whole = true,
                        .words = {"warm", "cold"}},
                       feedback_setting(true),
                       {.name = "dense_steps",
                        .standard = 0,
                        .least = 0,
                        .most = 1e9,
                        .meaning = "uncompressed steps at the beginning",
                        .whole = true},
                       {.name = "min_rate",
                        .standard = 2,
                        .least = 1,
                        .most = 1000000.0,
                        .meaning = "matrices that would shrink by less travel uncompressed"}},
          .make = make,
          .needs_whole_tensors = true};
}

}  // namespace paceline::compress::catalogue
