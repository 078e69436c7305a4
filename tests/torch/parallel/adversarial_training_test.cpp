// Two models that train against each other, as the guide writes the loop.
#include "tests/torch/parallel/small_training.h"

namespace paceline {
namespace {

struct Pair {
  nn::Linear generator = nn::Linear(3, 6);
  Net critic;
  Pair() {
    const at::NoGradGuard no_grad;
    generator->to(at::kDouble);
    for (at::Tensor& each : generator->parameters())
      each.copy_(at::linspace(-0.5, 0.5, each.numel(), at::kDouble).view(each.sizes()));
  }
  std::vector<at::Tensor> parameters() const {
    std::vector<at::Tensor> all = generator->parameters();
    for (const at::Tensor& each : critic.parameters()) all.push_back(each);
    return all;
  }
};

void set_requires_grad(nn::Module& module, bool wanted) {
  for (at::Tensor& each : module.parameters()) each.requires_grad_(wanted);
}

at::Tensor loss_of_critic(Pair& pair, const Samples& s) {
  return pair.critic.forward(pair.generator->forward(s.y).detach()).square().mean() -
         pair.critic.forward(s.x).square().mean();
}
at::Tensor loss_of_generator(Pair& pair, const Samples& s) {
  return -pair.critic.forward(pair.generator->forward(s.y)).square().mean();
}

TEST(AdversarialTraining, AsTheGuideWritesItEqualsOneProcess) {
  Pair one;
  torch::optim::SGD of_generator(one.generator->parameters(), 0.05),
      of_critic(one.critic.parameters(), 0.05);
  for (int step = 0; step < 4; ++step) {
    const Samples all = samples(step, 8);
    of_critic.zero_grad();
    loss_of_critic(one, all).backward();
    of_critic.step();
    of_generator.zero_grad();
    loss_of_generator(one, all).backward();
    of_generator.step();
  }
  for (const bool freezes : {false, true}) {
    run_ranks(2, [&](Job& job) {
      Pair pair;
      DataParallel generator(pair.generator, job), critic(pair.critic, job);
      torch::optim::SGD optimizer_g(pair.generator->parameters(), 0.05),
          optimizer_c(pair.critic.parameters(), 0.05);
      for (int step = 0; step < 4; ++step) {
        const Samples own = samples(step, 8).rows(4 * job.rank(), 4 * job.rank() + 4);
        optimizer_c.zero_grad();
        loss_of_critic(pair, own).backward();
        critic.step(optimizer_c);
        optimizer_g.zero_grad();
        if (freezes) {
          set_requires_grad(pair.critic, false);
          loss_of_generator(pair, own).backward();
          set_requires_grad(pair.critic, true);
        } else {
          const auto of_nobody = critic.no_sync();
          loss_of_generator(pair, own).backward();
        }
        generator.step(optimizer_g);
      }
      expect_equal(pair.parameters(), one.parameters(), 1e-12);
    });
  }
}

}  // namespace
}  // namespace paceline
