// Gossip (docs/strategies/gossip.md).
#include "paceline/core/collective/mixing/mixing_graph.h"
#include "paceline/torch/replica/replica.h"
#include "tests/torch/strategy/serial_world.h"

namespace paceline {
namespace {

using collective::MixingGraph;
using collective::MixingRow;

// W x of one round.
std::vector<at::Tensor> mixed(const std::vector<at::Tensor>& x, const MixingGraph& graph,
                              int round) {
  const int ranks = static_cast<int>(x.size());
  std::vector<at::Tensor> result;
  for (int r = 0; r < ranks; ++r) {
    const MixingRow row = graph.row(ranks, round, r);
    at::Tensor sum = row.own * x[SerialWorld::at(r)];
    for (const auto& term : row.from) sum = sum + term.weight * x[SerialWorld::at(term.peer)];
    result.push_back(sum);
  }
  return result;
}

std::vector<at::Tensor> all_x(const SerialWorld& world) {
  std::vector<at::Tensor> x;
  for (int r = 0; r < world.ranks(); ++r) x.push_back(world.x(r));
  return x;
}

at::Tensor serial_mean(const SerialWorld& world) {
  at::Tensor sum = at::zeros_like(world.x(0));
  for (const at::Tensor& x : all_x(world)) sum += x / world.ranks();
  return sum;
}

void serial_gossip(const SharedTask& task, SerialWorld& world, const std::string& graph_text,
                   bool adapt_then_combine) {
  const MixingGraph graph = collective::parse_mixing_graph(graph_text).value();
  for (int k = 0; k < task.steps; ++k) {
    const auto before = all_x(world);
    world.local_step(k);
    const auto after = all_x(world);
    const auto combined = mixed(adapt_then_combine ? after : before, graph, k);
    for (int r = 0; r < world.ranks(); ++r) {
      const std::size_t at = SerialWorld::at(r);
      world.set_x(r, adapt_then_combine ? combined[at] : combined[at] + (after[at] - before[at]));
    }
  }
}

TEST(Gossip, IsTheSerialProgramThatHoldsAllReplicas) {
  for (const SharedTask& task : oracle_tasks()) {
    for (const bool adapt_then_combine : {false, true}) {
      for (const char* graph : {"ring", "one_peer", "exponential"}) {
        if (task.ranks != 4 && std::string(graph) != "ring") continue;
        SerialWorld world(task);
        serial_gossip(task, world, graph, adapt_then_combine);
        expect_equals_serial(train_on_ranks(task, c10::str("gossip:graph=", graph, ",order=",
                                                           adapt_then_combine ? "atc" : "paper")),
                             world, serial_mean(world));
      }
    }
  }
}

TEST(Gossip, OnTheCompleteGraphAdaptedFirstIsSynchronous) {
  const SharedTask task{
      .ranks = 3, .steps = 30, .batch = SharedTask::even_batches, .tells_weights = false};
  const Trained synchronous = train_on_ranks(task, "synchronous");
  const Trained gossip = train_on_ranks(task, "gossip:graph=complete,order=atc");
  EXPECT_LE(difference(gossip.replicas[1], synchronous.replicas[1]), 1e-12);
  const Trained paper = train_on_ranks(task, "gossip:graph=complete");
  EXPECT_GT(difference(paper.replicas[1], synchronous.replicas[1]), 1e-4);
}

TEST(Gossip, EndsAtTheFixedPointOfItsGraphOnUnequalQuadratics) {
  // f_r(x) = (x - b_r)^2 / 2: x = eta ((1 + eta) I - W)^-1 b.
  const int ranks = 4;
  const double eta = 0.1;
  const at::Tensor b = at::tensor({0.3, -1.1, 0.7, 2.0}, at::kDouble);
  for (const char* name : {"ring", "exponential", "complete"}) {
    std::vector<double> ends(ranks);
    run_ranks(ranks, [&](Job& job) {
      at::Tensor x = at::zeros({1}, at::kDouble).requires_grad_();
      DataParallel parallel(std::vector<replica::Parameter>{{"x", x}}, job,
                            {.synchrony = c10::str("gossip:graph=", name)});
      torch::optim::SGD optimizer({x}, eta);
      for (int k = 0; k < 400; ++k) {
        optimizer.zero_grad();
        ((x - b[job.rank()]).square().sum() / 2).backward();
        parallel.step(optimizer);
      }
      ends[SerialWorld::at(job.rank())] = x.item<double>();
    });
    auto matrix = collective::mixing_matrix(collective::parse_mixing_graph(name).value(), ranks, 0);
    const at::Tensor w = at::from_blob(matrix.data(), {ranks, ranks}, at::kDouble);
    const at::Tensor fixed = eta * at::linalg_solve((1 + eta) * at::eye(ranks, at::kDouble) - w, b);
    for (int r = 0; r < ranks; ++r)
      EXPECT_NEAR(ends[SerialWorld::at(r)], fixed[r].item<double>(), 1e-12) << name;
    EXPECT_NEAR(fixed.mean().item<double>(), b.mean().item<double>(), 1e-12);
  }
}

TEST(Gossip, BringsTheModelToEachNeighbourInEachStep) {
  const SharedTask task{.ranks = 4, .steps = 10};
  const double bytes = 8 * static_cast<double>(train_on_ranks(task, "none").replicas[0].numel());
  const auto brought = [&](const char* text) {
    return train_on_ranks(task, text).reports[2].exchange.bytes / (10 * bytes);
  };
  EXPECT_EQ(brought("gossip:graph=one_peer"), 1);
  EXPECT_EQ(brought("gossip:graph=ring"), 2);
  EXPECT_EQ(brought("gossip:graph=complete,order=atc"), 3);
}

TEST(PushSum, OnOnePeerOfAPowerOfTwoIsGossipToTheBit) {
  for (const int ranks : {2, 4}) {
    const SharedTask task{.ranks = ranks, .steps = 40};
    const Trained gossip = train_on_ranks(task, "gossip:graph=one_peer,order=atc"),
                  push_sum = train_on_ranks(task, "push_sum");
    for (std::size_t r = 0; r < gossip.replicas.size(); ++r)
      EXPECT_TRUE(push_sum.replicas[r].equal(gossip.replicas[r])) << ranks;
  }
}

// Its definition: numerators x and weights w, pushed along the graph in equal shares, which are
// added `late` rounds later.
TEST(PushSum, IsTheSerialProgramThatHoldsAllReplicas) {
  for (const SharedTask& task : oracle_tasks()) {
    for (const auto& [name, late] : {std::pair("one_peer", 0), {"ring", 0}, {"one_peer", 2}}) {
      if (task.ranks == 2 && late > 0) continue;
      if (task.ranks != 4 && std::string(name) == "ring") continue;
      const MixingGraph graph = collective::parse_mixing_graph(name).value();
      SerialWorld world(task);
      std::vector<at::Tensor> x = all_x(world);
      std::vector<double> w(x.size(), 1);
      struct Message {
        int round = 0;
        std::size_t to = 0;
        at::Tensor x;
        double w = 0;
      };
      std::vector<Message> in_flight;
      for (int k = 0; k < task.steps; ++k) {
        for (int r = 0; r < task.ranks; ++r) {
          const std::size_t at = SerialWorld::at(r);
          if (!world.has_batch(r, k)) continue;
          world.make_gradient(r, k);  // at z = x / w
          world.set_x(r, x[at]);
          world.update(r);
          x[at] = world.x(r);
        }
        for (int r = 0; r < task.ranks; ++r) {
          const std::size_t at = SerialWorld::at(r);
          const MixingRow row = graph.row(task.ranks, k, r);
          const double part = 1.0 / (1.0 + static_cast<double>(row.to.size()));
          x[at] = part * x[at];
          w[at] *= part;
          for (const int peer : row.to)
            in_flight.push_back({k, SerialWorld::at(peer), x[at], w[at]});
        }
        for (const Message& one : in_flight) {
          if (one.round > k - late) continue;
          x[one.to] = x[one.to] + one.x;
          w[one.to] += one.w;
        }
        std::erase_if(in_flight, [&](const Message& one) { return one.round <= k - late; });
        double sum_of_weights = 0;
        for (const double one : w) sum_of_weights += one;
        for (const Message& one : in_flight) sum_of_weights += one.w;
        EXPECT_NEAR(sum_of_weights, task.ranks, 1e-12);
        for (int r = 0; r < task.ranks; ++r)
          world.set_x(r, x[SerialWorld::at(r)] / w[SerialWorld::at(r)]);
      }
      at::Tensor consensus = at::zeros_like(x[0]);
      for (const at::Tensor& one : x) consensus += one / task.ranks;
      for (const Message& one : in_flight) consensus += one.x / task.ranks;
      expect_equals_serial(train_on_ranks(task, c10::str("push_sum:graph=", name, ",late=", late)),
                           world, consensus);
    }
  }
}

TEST(PushSum, BringsEightBytesMoreThanTheModelInEachStep) {
  const SharedTask task{.ranks = 4, .steps = 10};
  const Trained trained = train_on_ranks(task, "push_sum");
  const auto model = static_cast<double>(trained.replicas[0].numel());
  EXPECT_EQ(trained.reports[1].exchange.bytes, 10 * (8 * model + 8));
}

}  // namespace
}  // namespace paceline
