// Cyclades: threads make steps on samples of a batch that have no feature in common, so that the
// result is that of one thread, to the bit.
// Pan, Lam, Tu, Papailiopoulos, Zhang, Jordan, Ramchandran, Re, Recht, Cyclades: Conflict-free
// Asynchronous Machine Learning, NeurIPS 2016.
#include <fmt/format.h>

#include <algorithm>
#include <barrier>

#include "paceline/linear/solver/solver_catalogue.h"
#include "paceline/linear/threads/threads.h"

namespace paceline::linear::catalogue {
namespace {

// A batch: its components, and those that each thread works on.
struct BatchPlan {
  std::vector<Component> components;
  std::vector<std::vector<std::size_t>> dealt;
};

// A round is an epoch: a new order of the samples, cut into batches. The threads first plan all
// batches, each some of them, then carry them out together, one batch after the other.
class Cyclades final : public Solver {
 public:
  Cyclades(const Settings& settings, const SolverContext& context)
      : samples_(context.samples),
        seed_(context.seed),
        threads_(threads_in(settings)),
        batch_(settings.as<std::size_t>("batch")),
        rate_(step_rate_in(settings)),
        steps_(context.problem, context.samples),
        weights_(context.samples.rows.width),
        graphs_(static_cast<std::size_t>(threads_), ConflictGraph(context.samples.rows)) {}

  void round() override {
    steps_.set_rate(rate_.of_epoch(epochs_));
    const auto order = permutation(samples_.size(), seed_of(seed_, 0, epochs_++));
    std::vector<BatchPlan> plans((order.size() + batch_ - 1) / batch_);
    std::barrier all_are_here(threads_);
    run_team(threads_, [&](int thread) {
      const auto own = static_cast<std::size_t>(thread);
      for (std::size_t b = own; b < plans.size(); b += graphs_.size())
        plans[b] = plan(
            std::span(order).subspan(b * batch_).first(std::min(batch_, order.size() - b * batch_)),
            graphs_[own]);
      for (const BatchPlan& one : plans) {
        all_are_here.arrive_and_wait();
        for (const std::size_t component : one.dealt[own])
          for (const std::size_t i : one.components[component].samples)
            steps_.step(i, OwnWeights{weights_});
      }
    });
    note_largest(plans);
  }

  std::vector<double> weights() override { return weights_; }
  std::span<const double> dual_variables() const override { return {}; }
  std::uint64_t bytes_brought() const override { return 0; }
  std::string remark() const override {
    if (threads_ == 1 || largest_share_ * threads_ <= 1) return {};
    return fmt::format(
        "the largest component of a batch of {} samples holds {:.3g} % of its work on average, so "
        "{} threads cannot share it: common features join the samples. Choose hogwild, which "
        "lets threads meet, or a smaller batch",
        batch_, 100 * largest_share_, threads_);
  }

 private:
  BatchPlan plan(std::span<const std::size_t> batch, ConflictGraph& graph) const {
    BatchPlan made{.components = graph.components(batch)};
    made.dealt = deal_out(made.components, threads_);
    return made;
  }

  void note_largest(std::span<const BatchPlan> plans) {
    double sum = 0;
    for (const BatchPlan& one : plans) {
      std::size_t largest = 0, all = 0;
      for (const Component& component : one.components) {
        largest = std::max(largest, component.work);
        all += component.work;
      }
      sum += all == 0 ? 0 : static_cast<double>(largest) / static_cast<double>(all);
    }
    largest_share_ = sum / static_cast<double>(plans.size());
  }

  const Samples& samples_;
  const std::uint64_t seed_;
  const int threads_;
  const std::size_t batch_;
  const StepRate rate_;
  SampleSteps steps_;
  std::vector<double> weights_;
  std::vector<ConflictGraph> graphs_;  // of each thread
  std::int64_t epochs_ = 0;
  double largest_share_ = 0;  // of a batch's work, in its largest component; mean of the last epoch
};

}  // namespace

SolverMethod cyclades() {
  std::vector<Setting> settings = step_settings();
  settings.push_back({.name = "batch",
                      .standard = 64,
                      .least = 1,
                      .most = 1e9,
                      .meaning = "samples that threads share out at a time",
                      .whole = true});
  return {
      .name = "cyclades",
      .summary = "threads make steps on samples without common features; the bits are one thread's",
      .reference = "Pan, Lam, Tu and others, NeurIPS 2016",
      .settings = std::move(settings),
      .parts = SolverMethod::Parts::one,
      .make = [](const Settings& chosen, const SolverContext& context) -> std::unique_ptr<Solver> {
        return std::make_unique<Cyclades>(chosen, context);
      }};
}

}  // namespace paceline::linear::catalogue
