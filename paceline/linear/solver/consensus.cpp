#include "paceline/linear/solver/consensus.h"

namespace paceline::linear {

LocalProblem::LocalProblem(const Problem& problem, const Samples& own, std::size_t total,
                           double penalty, std::uint64_t seed, const LocalSolveOptions& options)
    : problem_(problem),
      own_(own),
      total_(static_cast<double>(total)),
      penalty_(penalty),
      seed_(seed),
      options_(options),
      block_(std::make_unique<DualBlock>(own, problem.loss, penalty * total_)) {}

std::vector<double> LocalProblem::solve(std::span<const double> centre) {
  std::vector<double> x(centre.begin(), centre.end());
  block_->add_to(x);
  for (int pass = 0; pass < options_.most_passes; ++pass) {
    block_->pass(permutation(own_.size(), seed_of(seed_, 0, passes_done_++)), x);
    if (options_.accuracy > 0 && gap(centre, x) <= options_.accuracy) break;
  }
  return x;
}

void LocalProblem::set_penalty(double penalty) {
  penalty_ = penalty;
  auto block = std::make_unique<DualBlock>(own_, problem_.loss, penalty * total_);
  block->variables = std::move(block_->variables);
  block_ = std::move(block);
}

double LocalProblem::gap(std::span<const double> centre, std::span<const double> x) const {
  // With v = x - centre the primal is loss + penalty/2 |v|^2, and the dual the dual value
  // - penalty v.centre - penalty/2 |v|^2.
  double products = 0;  // v.x, which is v.centre + |v|^2
  for (std::size_t j = 0; j < x.size(); ++j) products += (x[j] - centre[j]) * x[j];
  double losses = 0;
  for (std::size_t i = 0; i < own_.size(); ++i)
    losses += problem_.loss.value(dot(own_.rows.row(i), x), own_.labels[i]);
  return (losses - block_->value()) / total_ + penalty_ * products;
}

void consensus_of(const Problem& problem, int ranks, double penalty, std::span<double> sum) {
  const double shrink = problem.l2 + ranks * penalty;
  for (double& one : sum) one = soft_threshold(penalty * one, problem.l1) / shrink;
}

double usual_penalty(const Problem& problem) {
  constexpr double kTimesL2 = 3, kWithoutL2 = 0.01;
  return problem.l2 > 0 ? kTimesL2 * problem.l2 : kWithoutL2;
}

std::vector<Setting> consensus_settings() {
  return {{.name = "penalty",
           .standard = kAutomatic,
           .least = 1e-12,
           .most = 1e6,
           .meaning = "how strongly ranks are drawn to the common weights; auto: 3 l2, or 0.01 "
                      "without l2",
           .may_be_auto = true},
          {.name = "passes",
           .standard = 10,
           .least = 1,
           .most = 1000,
           .meaning = "most passes of SDCA over a rank's samples, each time it solves its problem",
           .whole = true},
          {.name = "accuracy",
           .standard = 0,
           .least = 0,
           .most = 1,
           .meaning = "a rank solves no further once its own duality gap is at most this"}};
}

double penalty_in(const Settings& settings, const Problem& problem) {
  return settings.or_auto("penalty", usual_penalty(problem));
}

LocalSolveOptions local_solve_in(const Settings& settings) {
  return {.most_passes = settings.as<int>("passes"), .accuracy = settings["accuracy"]};
}

}  // namespace paceline::linear
