#include "paceline/core/compress/averaging/vote_average.h"
#include "paceline/core/compress/methods/method_catalogue.h"

namespace paceline::compress::catalogue {
namespace {

std::unique_ptr<Averaging> make(const Part& part, const Settings&) {
  return vote_average(part);
}

std::unique_ptr<Averaging> make_small(const Part& part, const Settings&) {
  return vote_average(part);
}

}  // namespace

Method sign() {
  return {.name = "sign",
          .summary = "the sign that most ranks have",
          .reference = "Bernstein et al., signSGD, ICML 2018, and with Majority Vote, ICLR 2019",
          .settings = {},
          .make = make,
          .make_small = make_small,
          .shortens_small = true,
          .outcome = Method::Outcome::direction,
          .learning_rate = 0.0002};
}

}  // namespace paceline::compress::catalogue
