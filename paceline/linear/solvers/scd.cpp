// SCD: stochastic coordinate descent. Each step draws a feature and moves its weight; with several
// ranks each does so among its own features.
// Nesterov, Efficiency of Coordinate Descent Methods on Huge-Scale Optimization Problems, 2012;
// Richtarik, Takac, Distributed Coordinate Descent Method for Learning with Big Data, JMLR 2016.
#include <algorithm>
#include <numeric>

#include "paceline/core/base/seed.h"
#include "paceline/linear/solver/coordinate_rounds.h"
#include "paceline/linear/solver/solver_catalogue.h"

namespace paceline::linear::catalogue {
namespace {

struct FeatureDraws {
  std::size_t steps = 0;  // 0: as many as there are features
  bool by_curvature = false;
  std::uint64_t seed = 1;
  int rank = 0;

  std::vector<std::size_t> operator()(const CoordinateBlock& block, std::int64_t round) const {
    SeededNumbers numbers(seed_of(seed, rank, round));
    std::vector<std::size_t> drawn(steps > 0 ? steps : block.size());
    if (!by_curvature) {
      for (std::size_t& j : drawn) j = numbers.below(block.size());
      return drawn;
    }
    std::vector<double> sums(block.size());
    std::partial_sum(block.curvatures().begin(), block.curvatures().end(), sums.begin());
    for (std::size_t& j : drawn) {
      const auto found = std::ranges::upper_bound(sums, numbers.unit() * sums.back());
      j = static_cast<std::size_t>(std::min(found, sums.end() - 1) - sums.begin());
    }
    return drawn;
  }
};

}  // namespace

SolverMethod scd() {
  return {.name = "scd",
          .summary = "draws a feature and moves its weight, each rank among its own features",
          .reference = "Nesterov 2012; Richtarik, Takac, JMLR 2016",
          .settings = {{.name = "steps",
                        .standard = 0,
                        .least = 0,
                        .most = 1e9,
                        .meaning = "steps of a rank in a round; 0: as many as it has features",
                        .whole = true},
                       {.name = "draws",
                        .standard = 0,
                        .least = 0,
                        .most = 1,
                        .meaning = "whether features are equally likely, or in proportion to L_j",
                        .whole = true,
                        .words = {"uniform", "curvature"}},
                       {.name = "rate",
                        .standard = kAutomatic,
                        .least = 1e-12,
                        .most = 1e12,
                        .meaning = "length of every step; auto: 1/L_j, which never overshoots",
                        .may_be_auto = true},
                       {.name = "samples",
                        .standard = 0,
                        .least = 0,
                        .most = 1e9,
                        .meaning = "samples that each step draws for its derivative, with a rate "
                                   "that is a number; 0: it takes all",
                        .whole = true},
                       {.name = "decay",
                        .standard = 0,
                        .least = 0,
                        .most = 1e12,
                        .meaning = "steps of a rank after which the rate has halved; 0: it stays"},
                       share_setting(),
                       search_setting()},
          .parts = SolverMethod::Parts::features,
          .takes_l1 = true,
          .needs_smooth = true,
          .make = [](const Settings& settings, const SolverContext& context) {
            const double rate = settings.or_auto("rate", 0);
            if (rate == 0 && (settings["samples"] > 0 || settings["decay"] > 0))
              throw_misuse(
                  "samples and decay of scd need a rate that is a number, since 1/L_j is that of "
                  "exact derivatives: give rate=...");
            return coordinate_rounds(
                {.share = share_in(settings, context),
                 .searches = searches(settings, context),
                 .rate = rate,
                 .samples = settings.as<std::size_t>("samples"),
                 .decay_steps = settings["decay"],
                 .order = FeatureDraws{settings.as<std::size_t>("steps"), settings.on("draws"),
                                       context.seed, context.group.rank()}},
                context);
          }};
}

}  // namespace paceline::linear::catalogue
