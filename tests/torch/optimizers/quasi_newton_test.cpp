#include "paceline/torch/optimizers/quasi_newton.h"

#include "paceline/torch/checkpointing/checkpointing.h"
#include "tests/support/temporary_folder.h"
#include "tests/torch/optimizers/problems.h"

namespace paceline::optimizers {
namespace {

// The iterates of one process, an iteration each, until the gradient or the loss is small.
std::vector<at::Tensor> iterates_of(at::Tensor w, const std::function<at::Tensor(at::Tensor)>& loss,
                                    const QuasiNewtonOptions& options, double least_gradient,
                                    double least_loss, int most = 200) {
  QuasiNewton optimizer({w}, QuasiNewtonOptions(options).max_iter(1).tolerance_grad(0));
  const LossClosure closure = closure_of(w, [&] { return loss(w); });
  std::vector<at::Tensor> iterates = {w.detach().clone()};
  while (static_cast<int>(iterates.size()) <= most) {
    optimizer.step(closure);
    iterates.push_back(w.detach().clone());
    if (optimizer.largest_gradient() < least_gradient || optimizer.loss() < least_loss) break;
    if (optimizer.inverse_hessian().defined()) {
      EXPECT_NO_THROW(at::linalg_cholesky(optimizer.inverse_hessian()));
    }
  }
  return iterates;
}

at::Tensor rosenbrock_start() {
  return at::tensor({-1.2, 1.0}, at::kDouble).requires_grad_();
}

std::vector<at::Tensor> rosenbrock_iterates(const std::string& method) {
  return iterates_of(rosenbrock_start(), rosenbrock, QuasiNewtonOptions().method(method), 0, 1e-12);
}

TEST(QuasiNewton, WalksThroughRosenbrocksValleyAsTheSpecificationsModelDoes) {
  const auto l_bfgs = rosenbrock_iterates("l_bfgs"), bfgs = rosenbrock_iterates("bfgs"),
             dfp = rosenbrock_iterates("dfp");
  EXPECT_EQ(l_bfgs.size(), 1 + 35);
  EXPECT_EQ(bfgs.size(), 1 + 30);
  EXPECT_EQ(dfp.size(), 1 + 36);
  const auto expect_at = [](const at::Tensor& got, double x, double y) {
    EXPECT_LE(difference(got, at::tensor({x, y}, at::kDouble)), 1e-8);
  };
  expect_at(l_bfgs[1], -1.0245319303460325, 1.0716196202669255);
  expect_at(l_bfgs[10], -0.6657084570888981, 0.4139830831953641);
  expect_at(bfgs[10], -0.1008130399782323, -0.0018983952157493496);
  expect_at(dfp[10], -0.3542575793771291, 0.11629891478396703);
}

TEST(QuasiNewton, EndsWithinTheSpecificationsIterationsOnLogisticRegression) {
  for (const std::uint64_t seed : {0u, 1u, 2u}) {
    const LinearProblem problem = LinearProblem::t2(seed);
    const auto iterations = [&](const char* method) {
      return iterates_of(
                 problem.start(), [&](const at::Tensor& w) { return problem.loss(w); },
                 QuasiNewtonOptions().method(method), 1e-8, -1)
                 .size() -
             1;
    };
    EXPECT_LE(iterations("l_bfgs"), 25);
    EXPECT_LE(iterations("bfgs"), 50);
    EXPECT_LE(iterations("dfp"), 100);
  }
}

TEST(QuasiNewton, LBFGSThatForgetsNothingIsBFGSIfBothBeginWithTheIdentity) {
  const LinearProblem problem = LinearProblem::t2();
  const auto iterates = [&](const QuasiNewtonOptions& options) {
    return iterates_of(
        problem.start(), [&](const at::Tensor& w) { return problem.loss(w); }, options, 1e-6, -1);
  };
  const auto memory = iterates(QuasiNewtonOptions().history_size(100).scale(false)),
             matrix = iterates(QuasiNewtonOptions().method("bfgs")),
             scaled = iterates(QuasiNewtonOptions().history_size(100));
  ASSERT_GT(matrix.size(), 15);
  EXPECT_EQ(memory.size(), matrix.size());
  for (std::size_t k = 0; k < std::min(memory.size(), matrix.size()); ++k)
    EXPECT_LE(difference(memory[k], matrix[k]), 1e-9) << "iteration " << k;
  EXPECT_GT(difference(scaled[5], matrix[5]), 1e-3);
}

TEST(QuasiNewton, OnThreeRanksTakesTheStepsOfOneProcess) {
  const LinearProblem problem = LinearProblem::t2();
  for (const char* method : {"l_bfgs", "bfgs", "dfp"}) {
    const auto options = QuasiNewtonOptions().method(method);
    const auto alone = iterates_of(
        problem.start(), [&](const at::Tensor& w) { return problem.loss(w); }, options, 1e-6, -1);
    SameEverywhere same;
    run_ranks(3, [&](Job& job) {
      at::Tensor w = problem.start();
      DataParallel parallel(std::vector<replica::Parameter>{{"w", w}}, job);
      QuasiNewton optimizer({w}, QuasiNewtonOptions(options).max_iter(1));
      const std::int64_t ends[] = {0, 100, 111, problem.samples()};  // uneven parts
      const std::int64_t begin = ends[job.rank()], end = ends[job.rank() + 1];
      parallel.weight(static_cast<double>(end - begin));
      for (std::size_t k = 1; k < alone.size(); ++k) {
        optimizer.step([&] {
          optimizer.zero_grad();
          const at::Tensor loss = problem.loss(w, begin, end);
          loss.backward();
          parallel.synchronize();
          return parallel.mean(loss);
        });
        EXPECT_LE(difference(w.detach(), alone[k]), 1e-9) << method << ", iteration " << k;
        same.tell(std::string(method) + std::to_string(k), {w});
      }
      EXPECT_LT(optimizer.largest_gradient(), 1e-6);
    });
  }
}

TEST(QuasiNewton, SeveralIterationsOfOneCallAreThoseOfSeveralCalls) {
  const auto one_each = rosenbrock_iterates("l_bfgs");
  at::Tensor w = rosenbrock_start();
  QuasiNewton optimizer({w}, QuasiNewtonOptions().max_iter(10));
  const at::Tensor before = optimizer.step(closure_of(w, [&] { return rosenbrock(w); }));
  EXPECT_DOUBLE_EQ(before.item<double>(), rosenbrock(one_each[0]).item<double>());
  EXPECT_TRUE(w.detach().equal(one_each[10]));
  EXPECT_EQ(optimizer.iterations(), 10);
  EXPECT_LE(optimizer.evaluations(), 16);
}

TEST(QuasiNewton, ASearchThatFailsNamesIterationAndValuesAndLeavesTheParameters) {
  at::Tensor w = rosenbrock_start();
  QuasiNewton optimizer({w}, QuasiNewtonOptions().max_iter(3));
  const LossClosure good = closure_of(w, [&] { return rosenbrock(w); });
  optimizer.step(good);
  const at::Tensor before = w.detach().clone();
  // The gradient is that of another function than the loss.
  const auto failure = misuse_of([&] { optimizer.step([&] { return good() * -1; }); });
  EXPECT_THAT(failure, AllOf(HasSubstr("iteration 4"), HasSubstr("strong Wolfe"),
                             HasSubstr("25 evaluations"), HasSubstr("with slope -")));
  EXPECT_TRUE(w.detach().equal(before));
  EXPECT_THAT(misuse_of([&] { optimizer.step([&] { return good() * NAN; }); }), HasSubstr("nan"));
  EXPECT_THAT(misuse_of([&] { optimizer.step(nullptr); }), HasSubstr("closure"));
}

TEST(QuasiNewton, RefusesWhatItCannotDoByName) {
  at::Tensor w = at::zeros({30'000}, at::kDouble);
  EXPECT_THAT(misuse_of([&] { QuasiNewton({w}, QuasiNewtonOptions().method("bfgz")); }),
              AllOf(HasSubstr("l_bfgs, bfgs, dfp"), HasSubstr("did you mean bfgs")));
  EXPECT_THAT(misuse_of([&] { QuasiNewton({w}, QuasiNewtonOptions().method("bfgs")); }),
              AllOf(HasSubstr("30000 x 30000"), HasSubstr("l_bfgs")));
  EXPECT_THAT(misuse_of([&] {
                QuasiNewton({w, at::zeros({3}, at::kFloat)});
              }),
              HasSubstr("one floating type"));
}

// Rosenbrock in a run that is saved after every third iteration, until `steps`.
at::Tensor saved_walk(const std::string& directory, const std::string& method, int steps,
                      bool resume) {
  at::Tensor end;
  run_ranks(1, [&](Job& job) {
    auto net = std::make_shared<nn::Module>();
    at::Tensor w = net->register_parameter("w", rosenbrock_start());
    QuasiNewton optimizer({w}, QuasiNewtonOptions().method(method).history_size(3).max_iter(1));
    Checkpoints checkpoints(job, directory, {.every = 3, .resume = resume});
    checkpoints.add("model", net);
    checkpoints.add("optimizer", [&](CheckpointFields& f) { optimizer.state_fields(f); });
    for (std::int64_t step = checkpoints.resume(); step < steps;) {
      optimizer.step(closure_of(w, [&] { return rosenbrock(w); }));
      checkpoints.save_if_due(++step);
    }
    checkpoints.finish();
    end = w.detach().clone();
  });
  return end;
}

TEST(QuasiNewton, GoesOnFromACheckpointWithTheSameBits) {
  for (const char* method : {"l_bfgs", "dfp"}) {
    const test::TemporaryFolder whole, parted;
    const at::Tensor expected = saved_walk(whole.file("run"), method, 12, false);
    saved_walk(parted.file("run"), method, 8, false);
    EXPECT_TRUE(saved_walk(parted.file("run"), method, 12, true).equal(expected)) << method;
  }
}

}  // namespace
}  // namespace paceline::optimizers
