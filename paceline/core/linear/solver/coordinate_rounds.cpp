#include "paceline/core/linear/solver/coordinate_rounds.h"

#include <cmath>
#include <utility>

#include "paceline/core/linear/solver/feature_part.h"
#include "paceline/core/linear/solver/vector_exchange.h"

namespace paceline::linear {
namespace {

class CoordinateRounds final : public Solver {
 public:
  CoordinateRounds(CoordinateRoundsOptions options, const SolverContext& context)
      : options_(std::move(options)),
        group_(context.group),
        features_(context.samples.rows.width),
        block_(context.problem, own_columns(context), context.samples.labels),
        exchange_(context.group) {}

  void round() override {
    const std::vector<double> weights = block_.weights, predictions = block_.predictions;
    for (const std::size_t j : options_.order(block_, rounds_++)) {
      if (options_.rate > 0) block_.step(j, options_.rate);
      else block_.step(j);
    }
    std::vector<double> moved = block_.predictions;
    for (std::size_t i = 0; i < moved.size(); ++i) moved[i] -= predictions[i];
    exchange_.sum(moved);
    for (std::size_t i = 0; i < moved.size(); ++i)
      block_.predictions[i] = predictions[i] + options_.share * moved[i];
    for (std::size_t j = 0; j < weights.size(); ++j)
      block_.weights[j] = std::lerp(weights[j], block_.weights[j], options_.share);
  }

  std::vector<double> weights() override {
    return gather_weights(block_.weights, features_, group_);
  }
  std::span<const double> dual_variables() const override { return {}; }
  std::uint64_t bytes_brought() const override { return exchange_.bytes_brought(); }
  std::string remark() const override { return {}; }

 private:
  static SparseColumns own_columns(const SolverContext& context) {
    const FeaturePart part = feature_part(context.samples.rows.width, context.group);
    return columns_of(context.samples.rows, part.first, part.count);
  }

  const CoordinateRoundsOptions options_;
  Communicator& group_;
  const std::size_t features_;  // of all ranks
  CoordinateBlock block_;
  VectorExchange exchange_;
  std::int64_t rounds_ = 0;
};

}  // namespace

std::unique_ptr<Solver> coordinate_rounds(CoordinateRoundsOptions options,
                                          const SolverContext& context) {
  return std::make_unique<CoordinateRounds>(std::move(options), context);
}

Setting share_setting() {
  return {.name = "share",
          .standard = kAutomatic,
          .least = 1e-6,
          .most = 2,
          .meaning = "part of each rank's moves that is kept; auto: 1/ranks, which is safe",
          .may_be_auto = true};
}

double share_in(const Settings& settings, const SolverContext& context) {
  return settings.or_auto("share", 1.0 / context.group.size());
}

}  // namespace paceline::linear
