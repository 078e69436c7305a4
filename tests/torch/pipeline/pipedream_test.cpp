// Pipelines without a flush equal their recurrences, in which each step's gradient is that of older
// weights.
#include "paceline/core/pipeline/pipeline.h"
#include "tests/torch/pipeline/asynchronous_trainings.h"

namespace paceline {
namespace {

using namespace pipeline_tests;

TEST(PipeDream, EqualsItsRecurrence) {
  const std::vector<Batch> batches = batches_of(30);
  const std::vector<MakeOptimizer> optimizers = {plain(0.1), momentum(0.05), adam()};
  int turn = 0;
  for (const int ranks : {1, 2, 3, 4}) {
    for (const char* schedule : {"pipedream", "pipedream:sync=vertical"}) {
      const MakeOptimizer& optimizer = optimizers[static_cast<std::size_t>(turn++) % 3];
      SCOPED_TRACE(c10::str(schedule, ", ", ranks, " ranks"));
      const Trained got =
          train_through(ranks, double_mlp, endless(schedule, 1, optimizer), batches);
      const Told expected = run({.layers = double_mlp,
                                 .first_layers = got.first_layers,
                                 .version_of = versions_of(schedule, ranks),
                                 .optimizer = optimizer},
                                batches);
      EXPECT_LE(greatest_difference(got.parameters, expected.end), 1e-12);
      // A loss is told when its mini-batch is back at the first stage.
      for (int t = 0; t < 30; ++t) {
        const double told = got.losses[static_cast<std::size_t>(t)];
        if (t < ranks - 1) EXPECT_TRUE(std::isnan(told));
        else EXPECT_NEAR(told, expected.losses[static_cast<std::size_t>(t - ranks + 1)], 1e-12);
      }
    }
  }
}

TEST(PipeDream, TwoVersionsEqualTheirRecurrence) {
  const std::vector<Batch> batches = batches_of(30, 13);  // cut in parts that are not equal
  for (const int ranks : {1, 2, 3, 4}) {
    for (const int micro_batches : {ranks - 1, ranks, 2 * ranks}) {
      if (micro_batches == 0) continue;
      SCOPED_TRACE(c10::str(ranks, " ranks, ", micro_batches, " micro-batches"));
      const Trained got = train_through(ranks, double_mlp,
                                        endless("pipedream_2bw", micro_batches, adam()), batches);
      const Told expected = run({.layers = double_mlp,
                                 .first_layers = got.first_layers,
                                 .version_of = versions_of("pipedream_2bw", ranks),
                                 .optimizer = adam(),
                                 .micro_batches = micro_batches},
                                batches);
      EXPECT_LE(greatest_difference(got.parameters, expected.end), 1e-12);
      const int behind = (ranks - 1 + micro_batches - 1) / micro_batches;
      EXPECT_NEAR(got.losses.back(), expected.losses[static_cast<std::size_t>(29 - behind)], 1e-12);
    }
  }
}

TEST(PipeDream, KeepsAsManyVersionsAndActivationsAsItsRuleSays) {
  for (const char* schedule : {"pipedream", "pipedream:sync=vertical", "pipedream_2bw"}) {
    const bool has_batches = std::string(schedule) == "pipedream_2bw";
    const int ranks = 4, micro_batches = has_batches ? 3 : 1;
    const auto choice = pipeline::parse_schedule(schedule).value();
    const auto rule = pipeline::version_rule(choice, {ranks, ranks}, micro_batches).value();
    const Trained got = train_through(
        ranks, double_mlp, endless(schedule, micro_batches, plain(0.01)), batches_of(10));
    for (int rank = 0; rank < ranks; ++rank) {
      const auto at = static_cast<std::size_t>(rank);
      EXPECT_EQ(got.versions[at], rule.most_kept(rank)) << schedule << ", stage " << rank;
      EXPECT_EQ(got.live[at], ranks - rank) << schedule << ", stage " << rank;
    }
  }
}

TEST(PipeDream, AStepAfterFinishGoesOn) {
  const std::vector<Batch> batches = batches_of(20);
  const Trained got = train_through(3, double_mlp, endless("pipedream", 1, adam()), batches, 8);
  // After the drain, mini-batches are counted from 0 again and version 9 is the first.
  const auto versions = [](int t, int s) {
    const int begin = t < 9 ? 0 : 9;
    return std::max(begin, t - (2 - s));
  };
  const Told expected = run({.layers = double_mlp,
                             .first_layers = got.first_layers,
                             .version_of = versions,
                             .optimizer = adam()},
                            batches);
  EXPECT_LE(greatest_difference(got.parameters, expected.end), 1e-12);
  EXPECT_NEAR(got.losses[9], expected.losses[8], 1e-12);  // all are back
}

TEST(PipeDream, BatchesOfOtherSizesDrainIt) {
  std::vector<Batch> batches;
  for (int t = 0; t < 12; ++t) batches.push_back(batch_of(t, 0, t < 5 ? 12 : 7, at::kDouble));
  const Trained got = train_through(3, double_mlp, endless("pipedream", 1, plain(0.1)), batches);
  const auto versions = [](int t, int s) { return std::max(t < 5 ? 0 : 5, t - (2 - s)); };
  const Told expected = run({.layers = double_mlp,
                             .first_layers = got.first_layers,
                             .version_of = versions,
                             .optimizer = plain(0.1)},
                            batches);
  EXPECT_LE(greatest_difference(got.parameters, expected.end), 1e-12);
}

TEST(PipeDream, ReplicasTakeTheMeanGradient) {
  const std::vector<Batch> batches = batches_of(12);
  for (const char* schedule : {"pipedream", "pipedream_2bw"}) {
    const int micro_batches = std::string(schedule) == "pipedream" ? 1 : 2;
    std::vector<at::Tensor> parameters;
    std::vector<int> first_layers;
    run_alone(4, [&](Job& job) {
      DeviceMesh mesh(job, "dp=2,pp=2");
      Pipeline pipeline(double_mlp(), mesh, endless(schedule, micro_batches, adam()));
      for (const Batch& batch : batches) {
        const at::Tensor rows = at::arange(mesh.rank("dp"), 12, 2);
        pipeline.step(batch.data.index_select(0, rows), batch.target.index_select(0, rows));
      }
      pipeline.finish();
      const auto state = pipeline.state();
      if (job.rank() != 0) return;
      first_layers = pipeline.first_layers();
      parameters = state.values();
    });
    const Told expected = run({.layers = double_mlp,
                               .first_layers = first_layers,
                               .version_of = versions_of(schedule, 2),
                               .optimizer = adam()},
                              batches);
    EXPECT_LE(greatest_difference(parameters, expected.end), 1e-9) << schedule;
  }
}

}  // namespace
}  // namespace paceline
