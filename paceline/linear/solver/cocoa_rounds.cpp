#include "paceline/linear/solver/cocoa_rounds.h"

#include "paceline/linear/solver/dual_block.h"
#include "paceline/linear/solver/sample_order.h"
#include "paceline/linear/solver/vector_exchange.h"

namespace paceline::linear {
namespace {

class CocoaRounds final : public Solver {
 public:
  CocoaRounds(const CocoaShares& shares, const Settings& settings, const SolverContext& context)
      : shares_(shares),
        passes_(settings.as<int>("passes")),
        order_(order_in(settings, context.seed, context.group.rank())),
        own_(select(context.samples, context.own_samples())),
        block_(own_, context.problem.loss,
               context.problem.l2 * static_cast<double>(context.samples.size()), shares.stretch),
        exchange_(context.group),
        weights_(context.samples.rows.width) {
    // Dual variables that do not start at 0 stand for weights, which are summed once.
    bool is_zero = true;
    for (const double label : context.samples.labels)
      is_zero = is_zero && context.problem.loss.start(label) == 0;
    if (is_zero) return;
    block_.add_to(weights_);
    VectorExchange(context.group).sum(weights_);
  }

  void round() override {
    const std::vector<double> before = block_.variables;
    std::vector<double> moved = weights_;
    for (int pass = 0; pass < passes_; ++pass, ++passes_done_)
      block_.pass(order_.of_pass(own_.size(), passes_done_), moved);
    for (std::size_t j = 0; j < moved.size(); ++j)
      moved[j] = (moved[j] - weights_[j]) / shares_.stretch;
    exchange_.sum(moved);
    for (std::size_t j = 0; j < moved.size(); ++j) weights_[j] += shares_.share * moved[j];
    // lerp ends exactly where the step did if the share is 1, and never leaves the domain.
    for (std::size_t i = 0; i < before.size(); ++i)
      block_.variables[i] = std::lerp(before[i], block_.variables[i], shares_.share);
  }

  std::vector<double> weights() override { return weights_; }
  std::span<const double> dual_variables() const override { return block_.variables; }
  std::uint64_t bytes_brought() const override { return exchange_.bytes_brought(); }
  std::string remark() const override { return {}; }

 private:
  const CocoaShares shares_;
  const int passes_;
  const SampleOrder order_;
  const Samples own_;
  DualBlock block_;
  VectorExchange exchange_;
  std::vector<double> weights_;
  std::int64_t passes_done_ = 0;
};

}  // namespace

std::unique_ptr<Solver> cocoa_rounds(const CocoaShares& shares, const Settings& settings,
                                     const SolverContext& context) {
  return std::make_unique<CocoaRounds>(shares, settings, context);
}

std::vector<Setting> cocoa_settings() {
  return {{.name = "passes",
           .standard = 1,
           .least = 1,
           .most = 1000,
           .meaning = "passes over a rank's samples in a round",
           .whole = true},
          order_setting()};
}

}  // namespace paceline::linear
