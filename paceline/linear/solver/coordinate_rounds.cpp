#include "paceline/linear/solver/coordinate_rounds.h"

#include <array>
#include <cmath>
#include <span>
#include <utility>

#include "paceline/core/base/seed.h"
#include "paceline/linear/solver/feature_part.h"
#include "paceline/linear/solver/vector_exchange.h"

namespace paceline::linear {
namespace {

constexpr std::uint64_t kSampleDraws = 2;  // keeps their numbers apart from those of the order

double share_of_least(const Problem& problem, std::span<const double> labels,
                      std::span<const double> predictions, std::span<const double> moved,
                      const std::array<double, 3>& products) {
  const auto objective_at = [&](double t) {
    double loss = 0;
    for (std::size_t i = 0; i < labels.size(); ++i)
      loss += problem.loss.value(predictions[i] + t * moved[i], labels[i]);
    return loss / static_cast<double>(labels.size()) +
           problem.l2 / 2 * (products[0] + 2 * t * products[1] + t * t * products[2]);
  };
  constexpr int kSections = 40;  // to 4e-9 of the interval
  const double golden = (std::sqrt(5.0) - 1) / 2;
  double begin = 0, end = 1;
  double left = end - golden, right = begin + golden;
  double at_left = objective_at(left), at_right = objective_at(right);
  for (int section = 0; section < kSections; ++section) {
    if (at_left <= at_right) {
      end = std::exchange(right, left);
      at_right = at_left;
      left = end - golden * (end - begin);
      at_left = objective_at(left);
    } else {
      begin = std::exchange(left, right);
      at_left = at_right;
      right = begin + golden * (end - begin);
      at_right = objective_at(right);
    }
  }
  // The ends themselves are no sections.
  const double middle = (begin + end) / 2;
  return objective_at(1) <= objective_at(middle) ? 1 : middle;
}

class CoordinateRounds final : public Solver {
 public:
  CoordinateRounds(CoordinateRoundsOptions options, const SolverContext& context)
      : options_(std::move(options)),
        problem_(context.problem),
        labels_(context.samples.labels),
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
    const double share =
        options_.searches ? best_share(predictions, moved, weights) : options_.share;
    for (std::size_t i = 0; i < moved.size(); ++i)
      block_.predictions[i] = predictions[i] + share * moved[i];
    for (std::size_t j = 0; j < weights.size(); ++j)
      block_.weights[j] = std::lerp(weights[j], block_.weights[j], share);
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

  // The minimum over [0, 1] of P(w + t (moves of w)), which is convex in t, by golden sections. All
  // ranks compute it from the same numbers, so they agree on it to the bit.
  double best_share(std::span<const double> predictions, std::span<const double> moved,
                    std::span<const double> weights) {
    std::array<double, 3> products = {};  // w.w, w.move, move.move
    for (std::size_t j = 0; j < weights.size(); ++j) {
      const double move = block_.weights[j] - weights[j];
      products[0] += weights[j] * weights[j];
      products[1] += weights[j] * move;
      products[2] += move * move;
    }
    exchange_.sum(products);
    return share_of_least(problem_, labels_, predictions, moved, products);
  }

  static SparseColumns own_columns(const SolverContext& context) {
    const FeaturePart part = feature_part(context.samples.rows.width, context.group);
    return columns_of(context.samples.rows, part.first, part.count);
  }

  const CoordinateRoundsOptions options_;
  const Problem& problem_;
  const std::span<const double> labels_;
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

Setting search_setting() {
  return {.name = "search",
          .standard = 0,
          .least = 0,
          .most = 1,
          .meaning = "whether each round keeps the best part of all moves, in place of share",
          .whole = true,
          .words = {"off", "on"}};
}

bool searches(const Settings& settings, const SolverContext& context) {
  if (!settings.on("search")) return false;
  if (context.problem.l1 > 0)
    throw_misuse("search=on takes no l1: leave one of them out, or give a share");
  if (!std::isnan(settings["share"]))
    throw_misuse("search=on finds the share of each round itself: leave share out");
  return true;
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
