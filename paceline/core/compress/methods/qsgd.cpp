#include "paceline/core/compress/codecs/qsgd.h"

#include "paceline/core/compress/averaging/gathered_average.h"
#include "paceline/core/compress/methods/method_catalogue.h"

namespace paceline::compress::catalogue {
namespace {

std::unique_ptr<Averaging> make(const AveragedTensor& part, const Settings& settings) {
  auto codec = qsgd_codec({.bits = settings.as<int>("bits"),
                           .bucket = settings.as<std::size_t>("bucket"),
                           .norm = settings.on("norm") ? Norm::max : Norm::l2});
  return gathered_average(
      part, std::move(codec),
      {.feedback = settings.on("feedback"), .gain = settings.as<float>("gain")});
}

}  // namespace

Method qsgd() {
  return {.name = "qsgd",
          .summary = "random levels between 0 and the norm of a bucket",
          .reference = "Alistarh et al., QSGD, NIPS 2017",
          .settings = {{.name = "bits",
                        .standard = 4,
                        .least = 2,
                        .most = 8,
                        .meaning = "bits of a level",
                        .whole = true},
                       bucket_setting(),
                       {.name = "norm",
                        .standard = 0,
                        .meaning = "norm of a bucket",
                        .whole = true,
                        .words = {"l2", "max"}},
                       feedback_setting(false),
                       {.name = "gain",
                        .standard = 1,
                        .least = 0,
                        .most = 1,
                        .meaning = "factor of decoded values; with feedback 1 / (1 + variance)"}},
          .make = make};
}

}  // namespace paceline::compress::catalogue
