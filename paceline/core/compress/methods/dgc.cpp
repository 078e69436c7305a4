#include "paceline/core/compress/averaging/momentum_selection_average.h"
#include "paceline/core/compress/methods/method_catalogue.h"

namespace paceline::compress::catalogue {
namespace {

std::unique_ptr<Averaging> make(const AveragedTensor& part, const Settings& settings) {
  return momentum_selection_average(part,
                                    {.ratio = settings["ratio"],
                                     .momentum = settings.as<float>("momentum"),
                                     .nesterov = settings.on("nesterov"),
                                     .masking = settings.on("masking"),
                                     .clip = settings["clip"],
                                     .sampled = !settings.on("selection"),
                                     .warm_up_steps = settings.as<std::uint32_t>("warm_up_steps"),
                                     .warm_up_stages = settings.as<int>("warm_up_stages")});
}

std::unique_ptr<Averaging> make_small(const AveragedTensor& part, const Settings& settings) {
  return momentum_average(part, settings.as<float>("momentum"), settings.on("nesterov"));
}

}  // namespace

Method dgc() {
  return {
      .name = "dgc",
      .summary = "the largest elements of the accumulated momentum",
      .reference = "Lin et al., Deep Gradient Compression, ICLR 2018",
      .settings = {ratio_setting(0.001),
                   {.name = "momentum",
                    .standard = 0.9,
                    .least = 0,
                    .most = 0.9999,
                    .meaning = "momentum factor; set SGD's own momentum to 0"},
                   {.name = "nesterov",
                    .standard = 0,
                    .meaning = "use Nesterov's momentum",
                    .whole = true,
                    .words = {"off", "on"}},
                   {.name = "masking",
                    .standard = 1,
                    .meaning = "clear the momentum of elements that were sent",
                    .whole = true,
                    .words = {"off", "on"}},
                   {.name = "clip",
                    .standard = 0,
                    .least = 0,
                    .most = 1e9,
                    .meaning =
                        "gradients of a tensor are cut to this norm / sqrt(ranks); 0: never"},
                   {.name = "selection",
                    .standard = 0,
                    .meaning = "find the largest elements by a threshold from a sample, or exactly",
                    .whole = true,
                    .words = {"sampled", "exact"}},
                   {.name = "warm_up_steps",
                    .standard = 1000,
                    .least = 0,
                    .most = 1e9,
                    .meaning = "steps in which the ratio falls to its value",
                    .whole = true},
                   {.name = "warm_up_stages",
                    .standard = 4,
                    .least = 1,
                    .most = 100,
                    .meaning = "number of ratios in the warm-up",
                    .whole = true}},
      .make = make,
      .make_small = make_small,
      .outcome = Method::Outcome::direction};
}

}  // namespace paceline::compress::catalogue
