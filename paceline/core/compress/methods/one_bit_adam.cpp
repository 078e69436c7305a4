#include <limits>

#include "paceline/core/compress/averaging/one_bit_adam_average.h"
#include "paceline/core/compress/methods/method_catalogue.h"

namespace paceline::compress::catalogue {
namespace {

OneBitAdamOptions options(const Settings& settings) {
  return {.beta1 = settings.as<float>("beta1"),
          .beta2 = settings.as<float>("beta2"),
          .epsilon = settings.as<float>("epsilon"),
          .freeze_step = settings.as<std::uint32_t>("freeze_step")};
}

std::unique_ptr<Averaging> make(const Part& part, const Settings& settings) {
  return one_bit_adam_average(part, options(settings));
}

std::unique_ptr<Averaging> make_small(const Part& part, const Settings& settings) {
  OneBitAdamOptions never = options(settings);
  never.freeze_step = std::numeric_limits<std::uint32_t>::max();
  return one_bit_adam_average(part, never);
}

}  // namespace

Method one_bit_adam() {
  return {.name = "one_bit_adam",
          .summary = "Adam whose momentum travels as signs once its variance is frozen",
          .reference = "Tang et al., 1-bit Adam, ICML 2021",
          .settings = {{.name = "freeze_step",
                        .standard = 100000,
                        .least = 0,
                        .most = 1e9,
                        .meaning = "step from which on the variance stays the same",
                        .whole = true},
                       {.name = "beta1",
                        .standard = 0.9,
                        .least = 0,
                        .most = 0.9999,
                        .meaning = "decay of the momentum"},
                       {.name = "beta2",
                        .standard = 0.999,
                        .least = 0,
                        .most = 0.99999,
                        .meaning = "decay of the variance"},
                       {.name = "epsilon",
                        .standard = 1e-08,
                        .least = 0,
                        .most = 1,
                        .meaning = "added to the root of the variance"}},
          .make = make,
          .make_small = make_small,
          .outcome = Method::Outcome::direction,
          .learning_rate = 0.001};
}

}  // namespace paceline::compress::catalogue
