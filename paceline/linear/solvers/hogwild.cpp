// Hogwild!: threads make steps of stochastic gradient descent on common weights, without locks.
// Niu, Recht, Re, Wright, Hogwild!: A Lock-Free Approach to Parallelizing Stochastic Gradient
// Descent, NeurIPS 2011.
#include "paceline/core/base/chunk.h"
#include "paceline/linear/solver/solver_catalogue.h"
#include "paceline/linear/threads/threads.h"

namespace paceline::linear::catalogue {
namespace {

enum class Update : std::uint8_t { fetch_add, racy };

// A round is an epoch: a new order of the samples, of which each thread takes a chunk.
class Hogwild final : public Solver {
 public:
  Hogwild(const Settings& settings, const SolverContext& context)
      : samples_(context.samples),
        seed_(context.seed),
        threads_(threads_in(settings)),
        update_(static_cast<Update>(settings.as<int>("update"))),
        rate_(step_rate_in(settings)),
        steps_(context.problem, context.samples),
        weights_(context.samples.rows.width) {}

  void round() override {
    steps_.set_rate(rate_.of_epoch(epochs_));
    const auto order = permutation(samples_.size(), seed_of(seed_, 0, epochs_++));
    if (update_ == Update::fetch_add) {
      run(order, FetchAddWeights{weights_});
    } else {
      run(order, RacyWeights{weights_});
    }
  }

  std::vector<double> weights() override { return weights_; }
  std::span<const double> dual_variables() const override { return {}; }
  std::uint64_t bytes_brought() const override { return 0; }
  std::string remark() const override {
    return threads_ == 1 ? "" : sparsity_of(samples_.rows).text();
  }

 private:
  template <typename Weights>
  void run(std::span<const std::size_t> order, const Weights& weights) {
    run_team(threads_, [&](int thread) {
      const std::size_t end = chunk_offset(order.size(), threads_, thread + 1);
      for (std::size_t k = chunk_offset(order.size(), threads_, thread); k < end; ++k)
        steps_.step(order[k], weights);
    });
  }

  const Samples& samples_;
  const std::uint64_t seed_;
  const int threads_;
  const Update update_;
  const StepRate rate_;
  SampleSteps steps_;
  std::vector<double> weights_;
  std::int64_t epochs_ = 0;
};

}  // namespace

SolverMethod hogwild() {
  std::vector<Setting> settings = step_settings();
  settings.push_back({.name = "update",
                      .standard = 0,
                      .least = 0,
                      .most = 1,
                      .meaning = "whether additions of other threads are never lost, or may be",
                      .whole = true,
                      .words = {"fetch_add", "racy"}});
  return {
      .name = "hogwild",
      .summary = "threads make steps of gradient descent on common weights, without locks",
      .reference = "Niu, Recht, Re, Wright, NeurIPS 2011",
      .settings = std::move(settings),
      .parts = SolverMethod::Parts::one,
      .make = [](const Settings& chosen, const SolverContext& context) -> std::unique_ptr<Solver> {
        return std::make_unique<Hogwild>(chosen, context);
      }};
}

}  // namespace paceline::linear::catalogue
