// Random model split with a skeleton network (docs/strategies/skeleton.md).
#include "paceline/torch/strategy/local/skeleton_split.h"
#include "tests/torch/strategy/serial_world.h"

namespace paceline {
namespace {

struct Splitting {
  double core = 0.3, share = 0.5;
  int period = 4, refresh = 2;
  bool keeps = false;
  std::string text() const {
    return c10::str("skeleton:core=", core, ",share=", share, ",period=", period,
                    ",refresh=", refresh, ",mode=", keeps ? "keep" : "drop");
  }
};

at::Tensor vectors_of(const nn::Module& net) {
  std::vector<at::Tensor> flags;
  for (const at::Tensor& p : net.parameters())
    flags.push_back(at::full({p.numel()}, p.dim() < 2, at::kBool));
  return at::cat(flags).nonzero().flatten();
}

// The definition, in one thread. Returns the consensus.
at::Tensor serial_skeleton(const SharedTask& task, SerialWorld& world, const Splitting& how) {
  const int ranks = task.ranks;
  at::Tensor global = world.x(0);
  const std::int64_t links = global.numel();
  at::Tensor core = at::arange(links);
  std::int64_t round = 0;
  const auto explored = [&](int r) {
    const std::int64_t count = std::llround(how.share * static_cast<double>(links)) - core.numel();
    return strategy::explored_links(core, links, round, r, std::max<std::int64_t>(0, count));
  };
  const auto held = [&](int r) {
    at::Tensor mask = at::zeros({links}, at::kBool);
    mask.index_fill_(0, core, true);
    return mask.index_fill_(0, explored(r), true);
  };
  const auto merged = [&] {
    at::Tensor sums = at::zeros_like(global), weights = at::zeros_like(global);
    for (int r = 0; r < ranks; ++r) {
      const at::Tensor mask = held(r).to(at::kDouble);
      sums += mask * world.x(r) * world.samples[SerialWorld::at(r)];
      weights += mask * world.samples[SerialWorld::at(r)];
    }
    return at::where(weights > 0, sums / weights, global);
  };
  std::vector<at::Tensor> frozen(SerialWorld::at(ranks));
  for (int k = 0; k < task.steps; ++k) {
    at::Tensor gradient = at::zeros_like(global);
    for (int r = 0; r < ranks; ++r) {
      if (!world.has_batch(r, k)) continue;
      world.make_gradient(r, k);
      gradient +=
          flat_gradient(*world.nets[SerialWorld::at(r)]) * world.samples[SerialWorld::at(r)];
      const at::Tensor before = world.x(r);
      world.update(r);
      world.set_x(r, at::where(held(r), world.x(r), before));
    }
    if ((k + 1) % how.period != 0) continue;
    const at::Tensor all = merged();
    std::vector<at::Tensor> were_held;
    for (int r = 0; r < ranks; ++r) were_held.push_back(held(r));
    global = all;
    if (round % how.refresh == 0)
      core = strategy::skeleton_core(global, gradient, vectors_of(*world.nets[0]),
                                     std::llround(how.core * static_cast<double>(links)));
    ++round;
    for (int r = 0; r < ranks; ++r) {
      const at::Tensor now = held(r), left = were_held[SerialWorld::at(r)].logical_and(~now);
      world.set_x(r, how.keeps ? global : at::where(now, global, at::zeros_like(global)));
      std::int64_t at = 0;
      for (at::Tensor& p : world.nets[SerialWorld::at(r)]->parameters()) {
        auto& states = world.optimizers[SerialWorld::at(r)]->state();
        const auto found = states.find(p.unsafeGetTensorImpl());
        if (found != states.end()) {
          auto& sgd_state = static_cast<torch::optim::SGDParamState&>(*found->second);
          if (sgd_state.momentum_buffer().defined())
            sgd_state.momentum_buffer().masked_fill_(left.narrow(0, at, p.numel()).view(p.sizes()),
                                                     0);
        }
        at += p.numel();
      }
    }
    world.restart();
  }
  double total = 0;
  for (const double one : world.samples) total += one;
  return total == 0 ? global : merged();
}

TEST(Skeleton, IsTheSerialProgramThatHoldsAllReplicas) {
  for (const SharedTask& task : oracle_tasks(60)) {
    for (const bool keeps : {false, true}) {
      const Splitting how{.keeps = keeps};
      SerialWorld world(task);
      const at::Tensor consensus = serial_skeleton(task, world, how);
      expect_equals_serial(train_on_ranks(task, how.text()), world, consensus);
    }
  }
}

TEST(Skeleton, OfTheWholeModelIsLocalSgdToTheBit) {
  const SharedTask task{.ranks = 3, .steps = 30};
  const Trained local = train_on_ranks(task, "local_sgd:period=4"),
                whole = train_on_ranks(task, "skeleton:core=1,share=1,period=4");
  for (std::size_t r = 0; r < 3; ++r) {
    EXPECT_TRUE(whole.replicas[r].equal(local.replicas[r]));
    EXPECT_TRUE(whole.consensus[r].equal(local.consensus[r]));
  }
}

TEST(Skeleton, BringsTheCoreAndWhatItExploredAndTheGradientWhenTheCoreIsChosen) {
  const SharedTask task{.ranks = 2, .steps = 40};
  const Trained trained =
      train_on_ranks(task, Splitting{.core = 0.4, .share = 0.6, .period = 4, .refresh = 5}.text());
  const auto links = static_cast<double>(trained.replicas[0].numel());
  // Ten rounds: the first brings all, each of the others its share; two choose a core.
  EXPECT_EQ(trained.reports[0].exchange.bytes,
            8 * (links + 9 * std::llround(0.6 * links) + 2 * links));
}

TEST(SkeletonSplit, TakesTheMostImportantLinksAndOfEqualOnesTheLower) {
  const at::Tensor weights = at::tensor({1.0, -4.0, 2.0, 2.0, 0.0}, at::kDouble),
                   gradient = at::tensor({0.0, 0.0, 1.0, 1.0, 8.0}, at::kDouble),
                   none = at::empty({0}, at::kLong), first = at::zeros({1}, at::kLong);
  EXPECT_TRUE(
      strategy::skeleton_core(weights, gradient, none, 3).equal(at::tensor({1, 2, 4}, at::kLong)));
  EXPECT_TRUE(
      strategy::skeleton_core(weights, gradient, first, 2).equal(at::tensor({0, 4}, at::kLong)));
}

// Each link outside of the core is explored by some rank within R rounds with probability
// 1 - (1 - (a - b) / (1 - b))^(P R).
TEST(SkeletonSplit, ExploresEachLinkAsOftenAsItShould) {
  const std::int64_t links = 400;
  const at::Tensor core = at::arange(120);
  std::int64_t missed = 0;
  for (int trial = 0; trial < 100; ++trial) {
    at::Tensor seen = at::zeros({links}, at::kBool);
    for (int round = 2 * trial; round < 2 * trial + 2; ++round)
      for (int rank = 0; rank < 4; ++rank) {
        const at::Tensor drawn = strategy::explored_links(core, links, round, rank, 80);
        EXPECT_EQ(drawn.numel(), 80);
        EXPECT_GE(drawn.min().item<std::int64_t>(), 120);
        seen.index_fill_(0, drawn, true);
      }
    missed += links - 120 - seen.sum().item<std::int64_t>();
  }
  const double expected = std::pow(1 - 0.2 / 0.7, 8);
  EXPECT_NEAR(static_cast<double>(missed) / (100.0 * 280), expected, 0.01);
}

}  // namespace
}  // namespace paceline
