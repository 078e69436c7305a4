#include "paceline/core/linear/solver/coordinate_rounds.h"

#include <cmath>
#include <utility>

#include "paceline/core/base/seed.h"
#include "paceline/core/linear/solver/feature_part.h"
#include "paceline/core/linear/solver/vector_exchange.h"

namespace paceline::linear {
namespace {

constexpr std::uint64_t kSampleDraws = 2;  // keeps their numbers apart from those of the order

class CoordinateRounds final : public Solver {
 public:
  CoordinateRounds(CoordinateRoundsOptions options, const SolverContext& context)
      : options_(std::move(options)),
        group_(context.group),
        seed_(mix(context.seed, kSampleDraws)),
        features_(context.samples.rows.width),
        block_(context.problem, own_columns(context), context.samples.labels),
        exchange_(context.group) {}

  void round() override {
    const std::vector<double> weights = block_.weights, predictions = block_.predictions;
    SeededNumbers numbers(seed_of(seed_, group_.rank(), rounds_));
    for (const std::size_t j : options_.order(block_, rounds_++)) step(j, numbers);
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
  void step(std::size_t j, SeededNumbers& numbers) {
    if (options_.rate <= 0) return block_.step(j);
    const double decay = options_.decay_steps;
    const double rate =
        decay > 0 ? options_.rate * decay / (decay + static_cast<double>(steps_++)) : options_.rate;
    if (options_.samples == 0) return block_.step(j, rate);
    std::vector<std::size_t> drawn(options_.samples);
    for (std::size_t& i : drawn) i = numbers.below(block_.predictions.size());
    block_.step(j, rate, drawn);
  }

  static SparseColumns own_columns(const SolverContext& context) {
    const FeaturePart part = feature_part(context.samples.rows.width, context.group);
    return columns_of(context.samples.rows, part.first, part.count);
  }

  const CoordinateRoundsOptions options_;
  Communicator& group_;
  const std::uint64_t seed_;    // of the samples that steps draw
  const std::size_t features_;  // of all ranks
  CoordinateBlock block_;
  VectorExchange exchange_;
  std::int64_t rounds_ = 0, steps_ = 0;
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
