// Elastic averaging (docs/strategies/elastic.md).
#include "paceline/torch/replica/replica.h"
#include "tests/torch/strategy/serial_world.h"

namespace paceline {
namespace {

// The definition, in one thread: the pulls are those of the parameters at which the gradient of
// the same step is computed. Returns the centre.
at::Tensor serial_elastic(const SharedTask& task, SerialWorld& world, int period, double alpha) {
  at::Tensor centre = world.x(0);
  int since = 0;
  for (int k = 0; k < task.steps; ++k) {
    std::vector<at::Tensor> pulls;
    const bool exchanges = since >= period;
    if (exchanges)
      for (int r = 0; r < world.ranks(); ++r) pulls.push_back(alpha * (world.x(r) - centre));
    world.local_step(k);
    if (exchanges) {
      for (int r = 0; r < world.ranks(); ++r) {
        world.set_x(r, world.x(r) - pulls[SerialWorld::at(r)]);
        centre = centre + pulls[SerialWorld::at(r)];
      }
      since = 0;
    }
    ++since;
  }
  return centre;
}

TEST(Elastic, IsTheSerialProgramThatHoldsAllReplicas) {
  for (const SharedTask& task : oracle_tasks()) {
    for (const int period : {1, 4}) {
      SerialWorld world(task);
      const at::Tensor centre = serial_elastic(task, world, period, 0.9 / task.ranks);
      expect_equals_serial(train_on_ranks(task, c10::str("elastic:period=", period)), world,
                           centre);
    }
  }
}

TEST(Elastic, WithNesterovMomentumIsEamsgd) {
  const SharedTask task{.ranks = 3, .optimizer = SharedTask::momentum_sgd(0.05, 0.9, true)};
  SerialWorld world(task);
  const at::Tensor centre = serial_elastic(task, world, 4, 0.2);
  expect_equals_serial(train_on_ranks(task, "elastic:period=4,alpha=0.2"), world, centre);
}

TEST(Elastic, OfAlphaZeroIsNoneToTheBit) {
  const SharedTask task{.ranks = 3};
  const Trained elastic = train_on_ranks(task, "elastic:period=2,alpha=0"),
                none = train_on_ranks(task, "none");
  for (std::size_t r = 0; r < 3; ++r) EXPECT_TRUE(elastic.replicas[r].equal(none.replicas[r]));
}

// f_r(x) = (x - b_r)^T A_r (x - b_r) / 2 with a diagonal A_r.
struct Quadratics {
  int ranks;
  std::vector<at::Tensor> a, b;

  explicit Quadratics(int count) : ranks(count) {
    at::Generator generator = at::detail::createCPUGenerator(3);
    const auto f64 = at::TensorOptions().dtype(at::kDouble);
    for (int r = 0; r < count; ++r) {
      a.push_back(at::rand({3}, generator, f64) * 1.5 + 0.5);
      b.push_back(at::randn({3}, generator, f64));
    }
  }
  // Replicas and centre after `steps`.
  std::vector<at::Tensor> train(double alpha, double rate, int steps, bool same = false) const {
    std::vector<at::Tensor> ends(static_cast<std::size_t>(ranks) + 1);
    run_ranks(ranks, [&](Job& job) {
      const auto rank = static_cast<std::size_t>(job.rank());
      const at::Tensor &own_a = a[same ? 0 : rank], &own_b = b[same ? 0 : rank];
      at::Tensor x = at::zeros({3}, at::kDouble).requires_grad_();
      DataParallel parallel(std::vector<replica::Parameter>{{"x", x}}, job,
                            {.synchrony = c10::str("elastic:period=1,alpha=", alpha)});
      torch::optim::SGD optimizer({x}, rate);
      for (int k = 0; k < steps; ++k) {
        optimizer.zero_grad();
        ((own_a * (x - own_b).square()).sum() / 2).backward();
        parallel.step(optimizer);
      }
      ends[rank] = x.detach().clone();
      const auto shared = parallel.consensus();
      if (rank == 0) ends.back() = x.detach().clone();
    });
    return ends;
  }
};

TEST(Elastic, EndsAtItsOwnFixedPointOnUnequalQuadratics) {
  // x_r = (A_r + rho)^-1 (A_r b_r + rho c), c = mean x, with alpha = rate rho.
  const Quadratics problem(4);
  const double rate = 0.05, rho = 0.8;
  const auto ends = problem.train(rate * rho, rate, 3000);
  at::Tensor mean = at::zeros({3}, at::kDouble);
  for (std::size_t r = 0; r < 4; ++r) {
    const at::Tensor x = (problem.a[r] * problem.b[r] + rho * ends.back()) / (problem.a[r] + rho);
    EXPECT_LE((ends[r] - x).abs().max().item<double>(), 1e-8);
    mean += ends[r] / 4;
  }
  EXPECT_LE((ends.back() - mean).abs().max().item<double>(), 1e-8);
}

TEST(Elastic, DivergesWhereTheSpectralRadiusIsAboveOne) {
  // beta = 1.9, eta h = 0.1 on four ranks: radius 1.396; with the standard 0.9 it converges.
  Quadratics problem(4);
  problem.a.assign(4, at::ones({3}, at::kDouble));
  EXPECT_GT(problem.train(1.9 / 4, 0.1, 60)[0].abs().max().item<double>(), 1e6);
  EXPECT_LT(problem.train(0.9 / 4, 0.1, 60)[0].abs().max().item<double>(), 10);
}

}  // namespace
}  // namespace paceline
