#include "paceline/torch/strategy/sandblaster.h"

#include <cmath>

#include "paceline/core/server/server.h"
#include "paceline/torch/optimizers/optimizers.h"
#include "tests/torch/optimizers/problems.h"

namespace paceline {
namespace {

// A model of one parameter, the weights of a LinearProblem.
struct LinearModel : torch::nn::Module {
  explicit LinearModel(const at::Tensor& start) {
    weight = register_parameter("weight", start.detach().clone());
  }
  at::Tensor weight;
};

void run_with_servers(int ranks, int servers, const std::function<void(Job&)>& work) {
  run_ranks(ranks, {.servers = servers}, [&](Job& job) {
    if (job.role() == Role::server) serve(job);
    else work(job);
  });
}

Sandblaster::LossSum loss_sum_of(const LinearProblem& problem, const LinearModel& model) {
  return [&](Portion portion) {
    return problem.loss(model.weight, portion.begin, portion.end) *
           static_cast<double>(portion.end - portion.begin);
  };
}

TEST(Sandblaster, TakesTheStepsOfQuasiNewtonOnAnyNumberOfServersAndWorkers) {
  const LinearProblem problem = LinearProblem::t2();
  at::Tensor w = problem.start();
  optimizers::QuasiNewton alone({w}, optimizers::QuasiNewtonOptions().max_iter(1));
  std::vector<at::Tensor> iterates;
  for (int k = 0; k < 10; ++k) {
    alone.step(closure_of(w, [&] { return problem.loss(w); }));
    iterates.push_back(w.detach().clone());
  }
  for (int servers = 1; servers <= 4; ++servers) {
    for (const int workers : {1, 2, 3, 7}) {
      SameEverywhere same;
      run_with_servers(workers, servers, [&](Job& job) {
        LinearModel model(problem.start());
        if (job.rank() > 0) model.weight.data().fill_(3);
        Sandblaster lbfgs(model, job, {.samples = problem.samples(), .portion = 11});
        double before = 1e9;
        for (std::size_t k = 0; k < iterates.size(); ++k) {
          const double loss = lbfgs.step(loss_sum_of(problem, model));
          EXPECT_LE(difference(model.weight.detach(), iterates[k]), 1e-9)
              << servers << " servers, " << workers << " workers, iteration " << k + 1;
          EXPECT_LT(loss, before);
          before = loss;
          same.tell("iteration " + std::to_string(k), {model.weight});
        }
        EXPECT_FALSE(model.weight.grad().defined());
      });
    }
  }
}

TEST(Sandblaster, RefusesByNameAndLeavesTheParameters) {
  const LinearProblem problem = LinearProblem::t2();
  run_with_servers(2, 1, [&](Job& job) {
    LinearModel model(problem.start());
    const auto refusal = [&](const SandblasterOptions& options) {
      return misuse_of([&] { Sandblaster(model, job, options); });
    };
    EXPECT_THAT(refusal({.samples = problem.samples(), .portion = 0}),
                HasSubstr("a portion has 0 samples"));
    EXPECT_THAT(refusal({}), HasSubstr("it has 0 samples"));
    EXPECT_THAT(refusal({.samples = 5, .history = 0}), HasSubstr("history is 0"));
    Sandblaster lbfgs(model, job, {.samples = problem.samples(), .portion = 100});
    const auto good = loss_sum_of(problem, model);
    const auto told = misuse_of([&] {
      lbfgs.step([&](Portion portion) {
        return portion.number == 4 ? good(portion) * NAN : good(portion);
      });
    });
    EXPECT_THAT(told, HasSubstr("portion 4 (samples 400 to 499) is nan"));
    EXPECT_TRUE(model.weight.detach().equal(problem.start().detach()));
    EXPECT_NO_THROW(lbfgs.step(good)) << "it goes on";
  });
  run_with_servers(1, 1, [&](Job& job) {
    LinearModel model(problem.start().to(at::kBFloat16));
    EXPECT_THAT(misuse_of([&] { Sandblaster(model, job, {.samples = 5}); }), HasSubstr("bf16"));
  });
  run_ranks(1, [&](Job& job) {
    LinearModel model(problem.start());
    EXPECT_THAT(misuse_of([&] { Sandblaster(model, job, {.samples = 5}); }),
                HasSubstr("`paceline run --servers N`"));
  });
}

}  // namespace
}  // namespace paceline
