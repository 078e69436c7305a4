#include "paceline/torch/optimizers/svrg.h"

#include "paceline/core/base/seed.h"
#include "tests/torch/optimizers/problems.h"

namespace paceline::optimizers {
namespace {

at::Tensor one_row(SeededNumbers& numbers, std::int64_t samples) {
  const auto row = static_cast<std::int64_t>(numbers.below(static_cast<std::uint64_t>(samples)));
  return at::tensor({row}, at::kLong);
}

// T1 with single samples, twice as many steps as samples in an outer pass.
struct RidgeBySVRG {
  LinearProblem problem = LinearProblem::t1();
  at::Tensor w = problem.start();
  SVRG optimizer{{w}, SVRGOptions(0.1 / problem.smoothness())};
  SeededNumbers numbers{1};

  void begin_outer() {
    optimizer.zero_grad();
    problem.loss(w).backward();
    optimizer.take_snapshot();
  }
  void make_difference(const at::Tensor& row) {
    optimizer.zero_grad();
    optimizer.subtract_at_snapshot([&] { return problem.loss(w, row); });
    problem.loss(w, row).backward();
  }
  void inner_steps(std::int64_t steps) {
    for (std::int64_t k = 0; k < steps; ++k) {
      make_difference(one_row(numbers, problem.samples()));
      optimizer.step();
    }
  }
  // Takes it over the gradients of all single samples, corrected or not.
  double variance(bool corrected) {
    std::vector<at::Tensor> all;
    for (std::int64_t row = 0; row < problem.samples(); ++row) {
      optimizer.zero_grad();
      if (corrected) make_difference(at::tensor({row}, at::kLong));
      else problem.loss(w, at::tensor({row}, at::kLong)).backward();
      all.push_back(w.grad().clone());
    }
    const at::Tensor each = at::stack(all);
    mean = each.mean(0);
    return (each - mean).square().sum(1).mean().item<double>();
  }
  at::Tensor mean;
};

TEST(SVRG, ReachesTheOptimumLinearlyAndItsGradientsLoseTheirVariance) {
  RidgeBySVRG run;
  for (int outer = 1; outer <= 10; ++outer) {
    run.begin_outer();
    run.inner_steps(2 * run.problem.samples());
    if (outer == 5) {
      EXPECT_LT(run.problem.gap(run.w), 1e-6);
    }
  }
  EXPECT_LT(run.problem.gap(run.w), 1e-12);
  EXPECT_LT(run.variance(true), 1e-9);
  EXPECT_GT(run.variance(false), 1e-3);
}

TEST(SVRG, CorrectedGradientsHaveTheMeanOfPlainOnes) {
  RidgeBySVRG run;
  run.begin_outer();
  const at::Tensor full =
      run.optimizer.state().begin()->second != nullptr
          ? static_cast<SVRGParamState&>(*run.optimizer.state().begin()->second).full_gradient()
          : at::Tensor();
  run.inner_steps(30);
  run.variance(true);
  const at::Tensor corrected = run.mean + full;
  run.variance(false);
  EXPECT_LE(difference(corrected, run.mean), 1e-12);
}

TEST(SVRG, ABatchAtTheSnapshotItselfMovesByTheFullGradient) {
  RidgeBySVRG run;
  run.begin_outer();
  run.make_difference(at::tensor({std::int64_t{7}}, at::kLong));
  EXPECT_EQ(run.w.grad().abs().max().item<double>(), 0);
}

TEST(SVRG, WithoutASnapshotSaysWhatToDo) {
  at::Tensor w = at::zeros({2}, at::kDouble).requires_grad_();
  SVRG optimizer({w});
  EXPECT_THAT(misuse_of([&] { optimizer.subtract_at_snapshot([&] { return w.sum(); }); }),
              HasSubstr("take_snapshot()"));
}

// A net with uneven parts of each batch; the side branch is used in some steps only.
struct NetBySVRG {
  static constexpr int kSteps = 9, kRows = 12;
  std::shared_ptr<Net> net = std::make_shared<Net>();
  SVRG optimizer{net->parameters(), SVRGOptions(0.1)};

  void train(const std::function<Samples(const Samples&)>& part,
             const std::function<void()>& exchange, const std::function<void()>& step) {
    for (int k = 0; k < kSteps; ++k) {
      if (k % 4 == 0) {
        optimizer.zero_grad();
        loss_of(*net, part(samples(500, 2 * kRows))).backward();
        exchange();
        optimizer.take_snapshot();
      }
      const Samples batch = part(samples(k, kRows));
      optimizer.zero_grad();
      optimizer.subtract_at_snapshot([&] { return loss_of(*net, batch, k % 3 == 1); });
      loss_of(*net, batch, k % 3 == 1).backward();
      step();
    }
  }
};

TEST(SVRG, OnThreeRanksSendsOneGradientAStepAndGivesTheNumbersOfOneProcess) {
  NetBySVRG alone;
  alone.train([](const Samples& all) { return all; }, [] {}, [&] { alone.optimizer.step(); });
  SameEverywhere same;
  run_ranks(3, [&](Job& job) {
    NetBySVRG run;
    DataParallel parallel(run.net, job, kSmallBuckets);
    run.train(
        [&](const Samples& all) {
          const std::int64_t n = all.x.size(0), ends[] = {0, n / 2, n / 2 + 1, n};
          parallel.weight(static_cast<double>(ends[job.rank() + 1] - ends[job.rank()]));
          return all.rows(ends[job.rank()], ends[job.rank() + 1]);
        },
        [&] { parallel.synchronize(); }, [&] { parallel.step(run.optimizer); });
    EXPECT_EQ(parallel.last_step().step, NetBySVRG::kSteps + 3);  // and the full gradients
    expect_equal(run.net->parameters(), alone.net->parameters(), 1e-10);
    same.tell("parameters", run.net->parameters());
  });
}

}  // namespace
}  // namespace paceline::optimizers
