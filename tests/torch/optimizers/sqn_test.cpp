#include "paceline/torch/optimizers/sqn.h"

#include "paceline/core/base/seed.h"
#include "tests/torch/optimizers/problems.h"

namespace paceline::optimizers {
namespace {

at::Tensor random_rows(std::uint64_t seed, std::int64_t count, std::int64_t samples) {
  at::Generator generator = at::detail::createCPUGenerator(seed);
  return at::randint(samples, {count}, generator, at::TensorOptions().dtype(at::kLong));
}

// T2 in batches of 32, as one process has it or as ranks do.
struct LogisticByBatches {
  LinearProblem problem = LinearProblem::t2();
  at::Tensor w = problem.start();
  std::function<at::Tensor(const at::Tensor& rows)> part = [](const at::Tensor& r) { return r; };

  at::Tensor loss(std::uint64_t seed, std::int64_t count) {
    return problem.loss(w, part(random_rows(seed, count, problem.samples())));
  }

  void by_sqn(int steps, const std::function<void(SQN&)>& step,
              const std::function<void()>& exchange) {
    SQN optimizer({w});
    for (int k = 0; k < steps; ++k) {
      optimizer.zero_grad();
      loss(static_cast<std::uint64_t>(k), 32).backward();
      step(optimizer);
      if (optimizer.wants_curvature()) {
        optimizer.measure_curvature([&] { return loss(static_cast<std::uint64_t>(k) + 5000, 300); },
                                    exchange);
      }
    }
  }

  void by_online_l_bfgs(int steps, const std::function<at::Tensor(const at::Tensor&)>& mean,
                        const std::function<void()>& exchange) {
    OnlineLBFGS optimizer({w});
    for (int k = 0; k < steps; ++k) {
      optimizer.step([&] {
        optimizer.zero_grad();
        const at::Tensor here = loss(static_cast<std::uint64_t>(k), 32);
        here.backward();
        exchange();
        return mean(here);
      });
    }
  }
};

TEST(SQN, AndOnlineLBFGSReachTheSpecificationsLevelOnLogisticRegression) {
  LogisticByBatches sqn, online;
  sqn.by_sqn(
      1500, [](SQN& optimizer) { optimizer.step(); }, [] {});
  EXPECT_LT(sqn.problem.gap(sqn.w), 5e-3);
  online.by_online_l_bfgs(
      1500, [](const at::Tensor& loss) { return loss; }, [] {});
  EXPECT_LT(online.problem.gap(online.w), 5e-3);
}

TEST(SQN, AndOnlineLBFGSOnThreeRanksTakeTheStepsOfOneProcess) {
  constexpr int kSteps = 60;
  LogisticByBatches sqn, online;
  sqn.by_sqn(
      kSteps, [](SQN& optimizer) { optimizer.step(); }, [] {});
  online.by_online_l_bfgs(
      kSteps, [](const at::Tensor& loss) { return loss; }, [] {});
  SameEverywhere same;
  run_ranks(3, [&](Job& job) {
    for (const bool is_sqn : {true, false}) {
      LogisticByBatches run;
      DataParallel parallel(std::vector<replica::Parameter>{{"w", run.w}}, job);
      run.part = [&](const at::Tensor& rows) {  // uneven parts
        const std::int64_t n = rows.size(0), ends[] = {0, n / 2, n / 2 + 3, n};
        const at::Tensor own = rows.slice(0, ends[job.rank()], ends[job.rank() + 1]);
        parallel.weight(static_cast<double>(own.size(0)));
        return own;
      };
      const auto exchange = [&] { parallel.synchronize(); };
      if (is_sqn) {
        run.by_sqn(
            kSteps, [&](SQN& optimizer) { parallel.step(optimizer); }, exchange);
      } else {
        run.by_online_l_bfgs(
            kSteps, [&](const at::Tensor& loss) { return parallel.mean(loss); }, exchange);
      }
      EXPECT_LE(difference(run.w.detach(), (is_sqn ? sqn : online).w.detach()), 1e-9);
      same.tell(is_sqn ? "sqn" : "online", {run.w});
    }
  });
}

TEST(SQN, MeasuresTheHessianTimesTheMoveAtTheAverage) {
  // On a quadratic the pair's y is A s wherever it is measured, so two pairs of independent moves
  // solve it: the direction is A^-1 g.
  const at::Tensor a = at::tensor({4.0, 1.0, 1.0, 3.0}, at::kDouble).view({2, 2});
  at::Tensor w = at::tensor({1.0, -2.0}, at::kDouble).requires_grad_();
  const auto loss = [&] { return at::dot(w, at::mv(a, w)) / 2; };
  SQN optimizer({w}, SQNOptions(0.05).decay_steps(0).period(1));
  const auto step = [&] {
    optimizer.zero_grad();
    loss().backward();
    optimizer.step();
  };
  step();
  EXPECT_FALSE(optimizer.wants_curvature());
  EXPECT_THAT(misuse_of([&] { optimizer.measure_curvature(loss); }), HasSubstr("not"));
  for (int pair = 0; pair < 2; ++pair) {
    step();
    EXPECT_TRUE(optimizer.wants_curvature());
    EXPECT_THAT(misuse_of([&] { optimizer.step(); }), HasSubstr("measure_curvature()"));
    const at::Tensor here = w.detach().clone();
    optimizer.measure_curvature(loss);
    EXPECT_TRUE(w.detach().equal(here));
    EXPECT_FALSE(w.grad().defined());
  }
  const at::Tensor before = w.detach().clone();
  step();
  const at::Tensor newton = -0.05 * before;  // A^-1 A w
  const at::Tensor move = w.detach() - before;
  // L-BFGS satisfies the newest secant; the move points downhill, and near Newton's.
  EXPECT_GT((at::dot(move, newton) / (move.norm() * newton.norm())).item<double>(), 0.95);
}

}  // namespace
}  // namespace paceline::optimizers
