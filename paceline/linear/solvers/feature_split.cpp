// Linear models with features split among ranks: what travels is a number for each sample of the
// batch, however many features there are.
//
// step=exact makes steps of (proximal) gradient descent, the same as one process makes:
// the ranks add up their shares of the predictions x_i.w, and each moves the weights of its
// features. step=coordinate makes passes of coordinate steps on each rank (coordinate_rounds.h).
#include <algorithm>
#include <cmath>
#include <numeric>

#include "paceline/linear/solver/coordinate_rounds.h"
#include "paceline/linear/solver/feature_part.h"
#include "paceline/linear/solver/solver_catalogue.h"
#include "paceline/linear/solver/vector_exchange.h"

namespace paceline::linear::catalogue {
namespace {

class GradientOfFeatures final : public Solver {
 public:
  GradientOfFeatures(const Settings& settings, const SolverContext& context)
      : problem_(context.problem),
        labels_(context.samples.labels),
        group_(context.group),
        seed_(context.seed),
        features_(context.samples.rows.width),
        batch_(batch_in(settings, labels_.size())),
        rate_(settings.or_auto("rate", safe_rate(context, batch_))),
        rows_(own_rows(context)),
        weights_(rows_.width),
        exchange_(context.group) {}

  void round() override {
    const std::vector<std::size_t> batch = next_batch();
    std::vector<double> predictions;
    for (const std::size_t i : batch) predictions.push_back(dot(rows_.row(i), weights_));
    exchange_.sum(predictions);
    std::vector<double> gradient(weights_.size());
    for (std::size_t k = 0; k < batch.size(); ++k) {
      add(problem_.loss.derivative(predictions[k], labels_[batch[k]]), rows_.row(batch[k]),
          gradient);
    }
    const auto count = static_cast<double>(batch.size());
    for (std::size_t j = 0; j < weights_.size(); ++j) {
      const double slope = gradient[j] / count + problem_.l2 * weights_[j];
      weights_[j] = soft_threshold(weights_[j] - rate_ * slope, rate_ * problem_.l1);
    }
  }

  std::vector<double> weights() override { return gather_weights(weights_, features_, group_); }
  std::span<const double> dual_variables() const override { return {}; }
  std::uint64_t bytes_brought() const override { return exchange_.bytes_brought(); }
  std::string remark() const override { return {}; }

 private:
  static std::size_t batch_in(const Settings& settings, std::size_t samples) {
    const auto batch = settings.as<std::size_t>("batch");
    return batch == 0 ? samples : std::min(batch, samples);
  }
  // 1 / (an upper bound of the curvature of a batch's objective): the largest eigenvalue of the
  // mean of x x^T is at most the mean of |x|^2.
  static double safe_rate(const SolverContext& context, std::size_t batch) {
    double sum = 0, most = 0;
    for (std::size_t i = 0; i < context.samples.size(); ++i) {
      const double norm = squared_norm(context.samples.rows.row(i));
      sum += norm;
      most = std::max(most, norm);
    }
    const auto count = static_cast<double>(context.samples.size());
    const double norm = batch < context.samples.size() ? most : sum / count;
    const double curvature = context.problem.loss.smoothness() * norm + context.problem.l2;
    return curvature > 0 ? 1 / curvature : 1;
  }
  // Transposed twice: the rows, with the entries of this rank's columns alone.
  static SparseRows own_rows(const SolverContext& context) {
    const FeaturePart part = feature_part(context.samples.rows.width, context.group);
    const SparseColumns own = columns_of(context.samples.rows, part.first, part.count);
    return columns_of(own.transposed).transposed;
  }

  // All samples; or the next ones of a permutation that each epoch draws anew, on all ranks the
  // same.
  std::vector<std::size_t> next_batch() {
    if (batch_ == labels_.size()) {
      if (order_.empty()) {
        order_.resize(batch_);
        std::iota(order_.begin(), order_.end(), std::size_t{0});
      }
      return order_;
    }
    if (taken_ == order_.size()) {
      order_ = permutation(labels_.size(), seed_of(seed_, 0, epochs_++));
      taken_ = 0;
    }
    const std::size_t end = std::min(taken_ + batch_, order_.size());
    const std::vector<std::size_t> batch(order_.begin() + static_cast<std::ptrdiff_t>(taken_),
                                         order_.begin() + static_cast<std::ptrdiff_t>(end));
    taken_ = end;
    return batch;
  }

  const Problem& problem_;
  const std::vector<double>& labels_;
  Communicator& group_;
  const std::uint64_t seed_;
  const std::size_t features_;  // of all ranks
  const std::size_t batch_;
  const double rate_;
  const SparseRows rows_;  // of all samples, with this rank's columns
  std::vector<double> weights_;
  VectorExchange exchange_;
  std::vector<std::size_t> order_;
  std::size_t taken_ = 0;
  std::int64_t epochs_ = 0;
};

std::unique_ptr<Solver> make_feature_split(const Settings& settings, const SolverContext& context) {
  if (!settings.on("step")) {
    if (settings["passes"] != 1 || !std::isnan(settings["share"]) || settings.on("search"))
      throw_misuse(
          "passes, share and search of feature_split belong to step=coordinate: leave them out");
    return std::make_unique<GradientOfFeatures>(settings, context);
  }
  if (settings["batch"] != 0)
    throw_misuse(
        "batch of feature_split belongs to step=exact, and there is step=coordinate: "
        "leave it out");
  const auto passes = settings.as<std::int64_t>("passes");
  const auto order = [passes](const CoordinateBlock& block, std::int64_t) {
    std::vector<std::size_t> features(block.size() * static_cast<std::size_t>(passes));
    for (std::size_t k = 0; k < features.size(); ++k) features[k] = k % block.size();
    return features;
  };
  return coordinate_rounds({.share = share_in(settings, context),
                            .searches = searches(settings, context),
                            .rate = settings.or_auto("rate", 0),
                            .order = order},
                           context);
}

}  // namespace

SolverMethod feature_split() {
  return {.name = "feature_split",
          .summary = "each rank holds some features; one number per sample is exchanged",
          .reference = "Bradley, Kyrola, Bickson, Guestrin, ICML 2011",
          .settings = {{.name = "step",
                        .standard = 0,
                        .least = 0,
                        .most = 1,
                        .meaning = "gradient steps as one process makes them, or passes of "
                                   "coordinate steps on each rank",
                        .whole = true,
                        .words = {"exact", "coordinate"}},
                       {.name = "batch",
                        .standard = 0,
                        .least = 0,
                        .most = 1e9,
                        .meaning = "samples of an exact step, of all ranks; 0: all",
                        .whole = true},
                       {.name = "rate",
                        .standard = kAutomatic,
                        .least = 1e-12,
                        .most = 1e12,
                        .meaning = "length of a step; auto: one that never overshoots on all "
                                   "samples",
                        .may_be_auto = true},
                       {.name = "passes",
                        .standard = 1,
                        .least = 1,
                        .most = 1000,
                        .meaning = "passes of coordinate steps over a rank's features in a round",
                        .whole = true},
                       share_setting(),
                       search_setting()},
          .parts = SolverMethod::Parts::features,
          .takes_l1 = true,
          .needs_smooth = true,
          .make = make_feature_split};
}

}  // namespace paceline::linear::catalogue
