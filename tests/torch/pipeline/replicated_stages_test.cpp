// Stages whose ranks take mini-batches in turn equal their recurrence (covers asynchronous_run.h,
// asynchronous_work.h and made_stages.h).
#include <cmath>
#include <numeric>

#include "paceline/core/pipeline/pipeline.h"
#include "tests/torch/pipeline/asynchronous_trainings.h"

namespace paceline {
namespace {

using namespace pipeline_tests;

struct Replicated {
  std::string partition;  // of the eight layers of the mlp
  std::vector<int> replicas;
  int ranks() const { return std::accumulate(replicas.begin(), replicas.end(), 0); }
};

const std::vector<Replicated> kReplicated = {{"0-3x2,4-7", {2, 1}},
                                             {"0-2x2,3-5,6-7", {2, 1, 1}},
                                             {"0-3,4-7x2", {1, 2}},
                                             {"0-1x3,2-7x2", {3, 2}}};

pipeline::VersionRule rule_of(const Replicated& one) {
  const int stages = static_cast<int>(one.replicas.size());
  return pipeline::version_rule(pipeline::parse_schedule("pipedream").value(),
                                {one.ranks(), stages, one.replicas}, 1)
      .value();
}

PipelineOptions options_for(const Replicated& one, const MakeOptimizer& optimizer) {
  PipelineOptions options = endless("pipedream", 1, optimizer);
  options.partition = one.partition;
  return options;
}

// 31 mini-batches, so that some replicas have none in the last round.
TEST(ReplicatedStages, EqualTheirRecurrence) {
  const std::vector<Batch> batches = batches_of(31);
  for (const Replicated& one : kReplicated) {
    for (const MakeOptimizer& optimizer : {momentum(0.02), adam()}) {
      SCOPED_TRACE(one.partition);
      const pipeline::VersionRule rule = rule_of(one);
      const Trained got =
          train_through(one.ranks(), double_mlp, options_for(one, optimizer), batches);
      const Told expected = run({.layers = double_mlp,
                                 .first_layers = got.first_layers,
                                 .version_of = [&](int t, int s) { return rule.version_of(s, t); },
                                 .optimizer = optimizer,
                                 .replicas = one.replicas},
                                batches);
      EXPECT_LE(greatest_difference(got.parameters, expected.end), 1e-12);
      const auto is_of = [&](double loss) {
        return std::ranges::any_of(expected.losses,
                                   [loss](double each) { return std::abs(each - loss) < 1e-12; });
      };
      EXPECT_TRUE(is_of(got.losses.back()));
    }
  }
}

TEST(ReplicatedStages, KeepAsManyVersionsAndActivationsAsTheirRuleSays) {
  for (const Replicated& one : kReplicated) {
    const pipeline::VersionRule rule = rule_of(one);
    const Trained got =
        train_through(one.ranks(), double_mlp, options_for(one, plain(0.01)), batches_of(24));
    const pipeline::Placement placement{one.ranks(), static_cast<int>(one.replicas.size()),
                                        one.replicas};
    for (int rank = 0; rank < one.ranks(); ++rank) {
      const int stage = placement.stages_of(rank).front();
      const auto at = static_cast<std::size_t>(rank);
      EXPECT_LE(got.versions[at], rule.most_kept(stage)) << one.partition << ", rank " << rank;
      EXPECT_EQ(got.live[at], rule.in_flight_limit(stage)) << one.partition << ", rank " << rank;
    }
  }
}

// The last batch of an epoch may be smaller, and a drain comes in the middle of a round.
TEST(ReplicatedStages, BatchesOfOtherSizesDrainThem) {
  std::vector<Batch> batches;
  for (int t = 0; t < 14; ++t) batches.push_back(batch_of(t, 0, t < 5 ? 12 : 7, at::kDouble));
  const Replicated& one = kReplicated[0];
  const Trained whole = train_through(3, double_mlp, options_for(one, adam()), batches);
  const Trained drained = train_through(3, double_mlp, options_for(one, adam()), batches, 4);
  for (std::size_t i = 0; i < whole.parameters.size(); ++i)
    EXPECT_TRUE(whole.parameters[i].equal(drained.parameters[i]));
}

TEST(ReplicatedStages, EvaluateWithTheResultOnEveryRank) {
  run_alone(3, [](Job& job) {
    DeviceMesh mesh(job, "pp=3");
    Pipeline pipeline(double_mlp(), mesh, options_for(kReplicated[0], adam()));
    const Batch batch = batch_of(0, 0, 6, at::kDouble);
    const at::Tensor output = pipeline.forward(batch.data);
    EXPECT_NEAR(job.world().all_reduce(output.sum().item<double>()),
                3 * output.sum().item<double>(), 1e-12);
    EXPECT_EQ(pipeline.reads_data(), job.rank() < 2);
    EXPECT_EQ(pipeline.reads_target(), job.rank() == 2);
  });
}

TEST(ReplicatedStages, RefuseWhatDoesNotGoByName) {
  run_ranks(2, [](Job& job) {
    DeviceMesh mesh(job, "pp=2");
    const auto refusal = [&](const std::string& schedule, const std::string& partition) {
      PipelineOptions options = endless(schedule, 1, adam());
      options.partition = partition;
      return misuse_of([&] { Pipeline pipeline(double_mlp(), mesh, options); });
    };
    EXPECT_THAT(refusal("1f1b", "0-3x2,4-7"),
                AllOf(HasSubstr("\"0-3x2,4-7\" replicates stages"), HasSubstr("\"pipedream\"")));
    EXPECT_THAT(refusal("pipedream:sync=vertical", "0-7x2"), HasSubstr("\"pipedream\""));
    EXPECT_THAT(refusal("pipedream", "0-3x2,4-7"),
                AllOf(HasSubstr("needs 3 ranks"), HasSubstr("pp has 2"), HasSubstr("\"pp=3\"")));
  });
  run_ranks(2, [](Job& job) {
    DeviceMesh mesh(job, "dp=2");
    PipelineOptions options = endless("pipedream", 1, adam());
    options.partition = "0-7x2";
    EXPECT_THAT(misuse_of([&] { Pipeline pipeline(double_mlp(), mesh, options); }),
                HasSubstr("needs 2 ranks, and the mesh's pp has 1"));
  });
}

}  // namespace
}  // namespace paceline
