// Delay-compensated ASGD: every push is applied as it comes, with a term of second order for what has
// changed since its worker pulled.
// Zheng, Meng, Wang, Chen, Yu, Ma, Liu, "Asynchronous Stochastic Gradient Descent with Delay
// Compensation", ICML 2017.
#include "paceline/core/server/consistency/consistency.h"

namespace paceline::server::catalogue {
namespace {

constexpr double kConstantLambda = 0.04, kAdaptiveLambda = 2;  // as published

Pacing compensated(const Settings& settings) {
  const bool is_adaptive = settings.on("variant");
  const Compensation compensation = {
      .lambda = settings.or_auto("lambda", is_adaptive ? kAdaptiveLambda : kConstantLambda),
      .is_adaptive = is_adaptive,
      .decay = settings["decay"]};
  Pacing pacing = {.by_steps = false, .lead = kAnyLead, .shows_on_arrival = true};
  if (compensation.lambda != 0) pacing.compensation = compensation;
  return pacing;
}

}  // namespace

Consistency dc_asgd() {
  return {.name = "dc_asgd",
          .summary = "every push is applied as it comes, corrected for what its worker has missed",
          .reference = "Zheng et al., ICML 2017",
          .settings = {{.name = "variant",
                        .standard = 0,
                        .meaning = "constant: lambda as it is; adaptive: over the root of the mean "
                                   "square of the gradients",
                        .whole = true,
                        .words = {"constant", "adaptive"}},
                       {.name = "lambda",
                        .standard = kAutomatic,
                        .least = 0,
                        .most = 1e6,
                        .meaning = "the weight of the correction; 0 is asp; auto: 0.04, or 2 if "
                                   "adaptive",
                        .may_be_auto = true},
                       {.name = "decay",
                        .standard = 0.95,
                        .meaning = "adaptive: what the mean square keeps from push to push"}},
          .pacing = compensated};
}

}  // namespace paceline::server::catalogue
