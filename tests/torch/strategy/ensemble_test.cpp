#include "paceline/torch/strategy/ensemble.h"

#include "tests/torch/parallel/small_training.h"

namespace paceline {
namespace {

using strategy::Ensemble;

// Problem T5: four classes that follow the signs of two features of sixteen numbers.
Samples four_classes(std::uint64_t seed, std::int64_t rows) {
  at::Generator problem = at::detail::createCPUGenerator(5),
                generator = at::detail::createCPUGenerator(seed);
  const auto f64 = at::TensorOptions().dtype(at::kDouble);
  const at::Tensor a = at::randn({16, 2}, problem, f64) / 4,
                   x = at::randn({rows, 16}, generator, f64);
  const at::Tensor u = x.matmul(a) + 0.25 * at::sin(2 * x.slice(1, 0, 2)) +
                       0.1 * at::randn({rows, 2}, generator, f64);
  return {x, (u.select(1, 0) > 0).to(at::kLong) * 2 + (u.select(1, 1) > 0).to(at::kLong)};
}

nn::Sequential small_net(std::uint64_t seed) {
  torch::manual_seed(seed);
  nn::Sequential net(nn::Linear(16, 64), nn::Tanh(), nn::Linear(64, 64), nn::Tanh(),
                     nn::Linear(64, 4));
  net->to(at::kDouble);
  return net;
}

at::Tensor cross_entropy_of(const at::Tensor& probabilities, const at::Tensor& labels) {
  return -probabilities.gather(1, labels.unsqueeze(1)).log().mean();
}

TEST(Ensemble, OutputsAreTheMeanOfAllModelsAndTheModelIsAsItWas) {
  std::vector<at::Tensor> members(3), together(3);
  const Samples data = four_classes(1, 40);
  run_ranks(3, [&](Job& job) {
    static std::mutex one_seed;  // torch's stream of random numbers belongs to the process
    nn::Sequential net = [&] {
      const std::lock_guard lock(one_seed);
      return small_net(static_cast<std::uint64_t>(job.rank()) + 1);
    }();
    Ensemble ensemble(*net, job.world());
    const std::string before = sha256_of(net->parameters());
    const auto rank = static_cast<std::size_t>(job.rank());
    members[rank] = at::softmax(net->forward(data.x), 1).detach();
    together[rank] = ensemble.outputs(data.x, [&](const at::Tensor& x) { return net->forward(x); });
    EXPECT_EQ(sha256_of(net->parameters()), before);
    EXPECT_TRUE(net->is_training());
  });
  const at::Tensor mean = (members[0] + members[1] + members[2]) / 3;
  double losses = 0;
  for (const at::Tensor& one : members) losses += cross_entropy_of(one, data.y).item<double>() / 3;
  for (const at::Tensor& one : together) {
    EXPECT_LE(difference(one, mean), 1e-14);
    EXPECT_LE(cross_entropy_of(one, data.y).item<double>(), losses);
  }
}

// One rank is its own teacher, so it has nothing to learn from it.
TEST(Ensemble, OfOneRankGivesTheDistilledPartNoGradient) {
  run_ranks(1, [](Job& job) {
    nn::Sequential net = small_net(3);
    const Samples data = four_classes(2, 60);
    Ensemble ensemble(*net, job.world(), {.relabelled = 1, .weight = 1, .temperature = 3});
    ensemble.relabel(
        data.x, [&](const at::Tensor& x) { return net->forward(x); }, 17);
    ensemble.loss(net->forward(data.x), data.y, at::arange(60)).backward();
    for (const at::Tensor& p : net->parameters())
      EXPECT_LE(p.grad().abs().max().item<double>(), 1e-14);
  });
}

TEST(Ensemble, LossIsThePlainOneForSamplesThatWereNotRelabelled) {
  run_ranks(2, [](Job& job) {
    nn::Sequential net = small_net(4);
    const Samples data = four_classes(3, 20);
    const at::Tensor rows = at::arange(20), logits = net->forward(data.x).detach();
    const double plain = nn::functional::cross_entropy(logits, data.y).item<double>();
    Ensemble ensemble(*net, job.world(), {.relabelled = 0});
    EXPECT_DOUBLE_EQ(ensemble.loss(logits, data.y, rows).item<double>(), plain);
    ensemble.relabel(data.x, [&](const at::Tensor& x) { return net->forward(x); });
    EXPECT_DOUBLE_EQ(ensemble.loss(logits, data.y, rows).item<double>(), plain);
  });
}

// Ensemble-compression beside averaging of parameters: as good within one percent.
TEST(Ensemble, OfCompressedModelsIsAsGoodAsTheMeanOfReplicas) {
  const Samples all = four_classes(10, 1600), test = four_classes(11, 1600);
  double of_ensemble = 0, of_mean = 0;
  const auto accuracy = [&](const at::Tensor& outputs) {
    return outputs.argmax(1).eq(test.y).to(at::kDouble).mean().item<double>();
  };
  for (const bool with_ensemble : {false, true}) {
    run_ranks(4, [&](Job& job) {
      static std::mutex one_seed;
      nn::Sequential net = [&] {
        const std::lock_guard lock(one_seed);
        return small_net(7);
      }();
      const Samples own = all.rows(400 * job.rank(), 400 * job.rank() + 400);
      DataParallel parallel(net, job,
                            {.synchrony = with_ensemble ? "none" : "local_sgd:period=40"});
      torch::optim::SGD optimizer(net->parameters(), 0.2);
      Ensemble ensemble(*net, job.world());
      const auto forward = [&](const at::Tensor& x) { return net->forward(x); };
      at::Generator draw =
          at::detail::createCPUGenerator(20 + static_cast<std::uint64_t>(job.rank()));
      const auto step = [&](bool taught) {
        const at::Tensor rows = at::randint(400, {16}, draw, at::TensorOptions().dtype(at::kLong));
        const at::Tensor x = own.x.index_select(0, rows), y = own.y.index_select(0, rows);
        optimizer.zero_grad();
        (taught ? ensemble.loss(net->forward(x), y, rows)
                : nn::functional::cross_entropy(net->forward(x), y))
            .backward();
        parallel.step(optimizer);
      };
      for (int round = 0; round < 8; ++round) {
        for (int k = 0; k < 40; ++k) step(false);
        if (!with_ensemble) continue;
        ensemble.relabel(own.x, forward);
        for (int k = 0; k < 10; ++k) step(true);
      }
      const at::NoGradGuard no_grad;
      const at::Tensor together = ensemble.outputs(test.x, forward);
      const auto shared = parallel.consensus();
      const double found = accuracy(with_ensemble ? together : net->forward(test.x));
      if (job.rank() == 0) (with_ensemble ? of_ensemble : of_mean) = found;
    });
  }
  EXPECT_GT(of_mean, 0.8);
  EXPECT_GE(of_ensemble, of_mean - 0.01);
}

TEST(Ensemble, RefusesSharesAndTemperaturesOutOfRange) {
  run_ranks(1, [](Job& job) {
    nn::Sequential net = small_net(1);
    EXPECT_THAT(misuse_of([&] { Ensemble(*net, job.world(), {.relabelled = 1.5}); }),
                HasSubstr("relabelled"));
    EXPECT_THAT(misuse_of([&] { Ensemble(*net, job.world(), {.temperature = 0}); }),
                HasSubstr("temperature"));
  });
}

}  // namespace
}  // namespace paceline
