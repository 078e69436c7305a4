// Trainings in stages that are killed, stopped, frozen and resumed, and what others see of them
// meanwhile. Runs fashion_mnist.
#ifdef PACELINE_WITH_TORCH
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "paceline/core/base/seed.h"
#include "tests/support/nightly.h"
#include "tests/support/seed.h"
#include "tests/support/training_run.h"

namespace paceline::test {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using StagedOptions = TrainingRun::Options;

constexpr int kStagedSteps = 96, kStagedEvery = 24;

StagedOptions staged_options(int stages, const std::string& schedule, int micro_batches) {
  return {.ranks = stages,
          .example = {"--model", "mlp", "--batch-size", "64", "--layout",
                      "pp=" + std::to_string(stages), "--pipeline", schedule, "--micro-batches",
                      std::to_string(micro_batches)},
          .steps = kStagedSteps,
          .every = kStagedEvery};
}

// The digest of a run that nothing disturbs. A save drains a pipeline without a flush, so it saves
// too.
std::string sha256_of_whole_run(const StagedOptions& options) {
  const TemporaryFolder folder;
  TrainingRun run(options, folder.path());
  EXPECT_EQ(run.exit_code(), 0) << run.process().error();
  return run.sha256();
}

// All synchronous schedules have it, on any number of stages.
const std::string& synchronous_sha256() {
  static const std::string digest = sha256_of_whole_run(staged_options(2, "1f1b", 4));
  return digest;
}

// A stage is killed that soon after step `at`, far from the saves before and after it. The first
// checkpoint is there by then, since the second save has waited for it.
void expect_verdict_and_bits(StagedOptions options, std::size_t victim, std::int64_t at,
                             std::chrono::milliseconds later, const std::string& expected) {
  options.launcher = {"--max-restarts", "3"};
  const TemporaryFolder folder;
  TrainingRun run(options, folder.path());
  ASSERT_TRUE(run.reaches(at)) << run.process().error();
  const auto workers = run.workers();
  ASSERT_EQ(workers.size(), static_cast<std::size_t>(options.ranks));
  (void)run.process().wait_for_error("\n\n", Deadline::in(later));
  ASSERT_EQ(::kill(workers[victim], SIGKILL), 0);
  EXPECT_EQ(run.exit_code(), 0) << run.process().error();
  EXPECT_EQ(run.sha256(), expected);
  const std::string killed = "rank " + std::to_string(victim);
  EXPECT_THAT(run.process().error(),
              AllOf(ContainsRegex("rank [0-9] (waited|sent) .*micro-batch [0-9]+ (for|of) stage "
                                  "[0-9].*" +
                                  killed + " (was lost|\\(pid )"),
                    ContainsRegex(killed + " .*was killed by signal 9"),
                    HasSubstr("restart in 1 s as generation 2; the newest checkpoint is of step")));
}

TEST(StagedFaults, AKilledStageIsToldWithStageAndMicroBatchAndARestartEndsWithTheSameBits) {
  if (!is_nightly()) {
    expect_verdict_and_bits(staged_options(2, "1f1b", 4), 1, 60, 0ms, synchronous_sha256());
    const StagedOptions endless = staged_options(2, "pipedream", 1);
    expect_verdict_and_bits(endless, 0, 60, 0ms, sha256_of_whole_run(endless));
    return;
  }
  struct Case {
    const char* schedule;
    int micro_batches;
  };
  SeededNumbers moments(seed(1));
  for (const auto& [schedule, micro_batches] :
       {Case{"sequential", 1}, Case{"gpipe", 6}, Case{"1f1b", 6}, Case{"interleaved:chunks=2", 6},
        Case{"zero_bubble", 6}, Case{"pipedream", 1}, Case{"pipedream:sync=vertical", 1},
        Case{"pipedream_2bw", 3}}) {
    const StagedOptions options = staged_options(3, schedule, micro_batches);
    const std::string expected = sha256_of_whole_run(options);
    // A step takes some 40 ms: the moment is in its warm-up, steady state or drain.
    for (std::size_t victim = 0; victim < 3; ++victim) {
      const std::chrono::milliseconds later(moments.below(40));
      SCOPED_TRACE(std::string(schedule) + ", rank " + std::to_string(victim) + ", " +
                   std::to_string(later.count()) + " ms later");
      expect_verdict_and_bits(options, victim, 60, later, expected);
    }
  }
}

TEST(StagedFaults, SigtermSavesAndOtherStagesGoOnToTheSameBits) {
  const TemporaryFolder folder;
  StagedOptions options = staged_options(2, "1f1b", 4);
  options.every = 1000;
  {
    TrainingRun run(options, folder.path());
    ASSERT_TRUE(run.reaches(5)) << run.process().error();
    run.process().send(SIGTERM);
    EXPECT_EQ(run.exit_code(), 143) << run.process().error();
    ASSERT_EQ(run.saved_steps().size(), 1U);
    EXPECT_LT(run.saved_steps().front(), kStagedSteps);
  }
  options = staged_options(3, "gpipe", 4);
  options.resume = true;
  TrainingRun again(options, folder.path());
  EXPECT_EQ(again.exit_code(), 0) << again.process().error();
  EXPECT_EQ(again.sha256(), synchronous_sha256());
  EXPECT_GT(again.first_step(), 5);
  // The same program finds nothing left, and a plain one has the same parameters.
  options.ranks = 1;
  options.example = {"--model", "mlp", "--batch-size", "64"};
  TrainingRun over(options, folder.path());
  EXPECT_EQ(over.exit_code(), 0) << over.process().error();
  EXPECT_EQ(over.sha256(), synchronous_sha256());
  EXPECT_THAT(over.process().output(),
              HasSubstr("nothing was left to train after step " + std::to_string(kStagedSteps)));
}

TEST(StagedFaults, AStageThatStandsFor6sIsToldAsAStallWithStageAndMicroBatchAndGoesOn) {
  std::vector<StagedOptions> all = {staged_options(2, "1f1b", 4)};
  if (is_nightly()) {
    all.push_back(staged_options(3, "gpipe", 4));
    all.push_back(staged_options(2, "pipedream", 1));
  }
  for (StagedOptions& options : all) {
    options.steps = options.every = 200;  // no save is near
    const std::string expected = sha256_of_whole_run(options);
    const TemporaryFolder folder;
    TrainingRun run(options, folder.path());
    ASSERT_TRUE(run.reaches(10)) << run.process().error();
    const pid_t victim = run.workers().back();
    const auto since = Clock::now();
    ASSERT_EQ(::kill(victim, SIGSTOP), 0);
    EXPECT_TRUE(run.process().wait_for_error("stall: for 5 s", Deadline::in(20s)));
    while (Clock::now() - since < 6s)
      (void)run.process().wait_for_error("\n\n", Deadline::in(50ms));
    ASSERT_EQ(::kill(victim, SIGCONT), 0);
    EXPECT_EQ(run.exit_code(), 0) << run.process().error();
    EXPECT_THAT(run.process().error(),
                ContainsRegex("stall: for 5 s rank 0 waits .*micro-batch [0-9]+ (for|of) stage 0"));
    EXPECT_EQ(run.sha256(), expected);
  }
}

// The names of the spans of stages, by rank; those of a rank follow each other.
std::map<int, std::multiset<std::string>> computed_in(const std::string& trace) {
  std::map<int, std::multiset<std::string>> names;
  std::map<int, double> end;
  std::ifstream file(trace);
  const json parsed = json::parse(file);
  for (const json& event : parsed.at("traceEvents")) {
    if (event.value("cat", "") != "stages") continue;
    const int rank = event.at("pid");
    names[rank].insert(event.at("name").get<std::string>());
    EXPECT_GE(event.at("ts").get<double>(), end[rank] - 0.01) << event;
    end[rank] = event.at("ts").get<double>() + event.at("dur").get<double>();
  }
  return names;
}

TEST(StagedFaces, ATraceHasALaneOfWhatEachStageComputed) {
  struct Case {
    const char* schedule;
    int micro_batches;
    std::vector<std::string> letters;
  };
  std::vector<Case> cases = {{"zero_bubble", 2, {"F", "B", "W"}}, {"pipedream", 1, {"F", "B"}}};
  if (is_nightly()) cases.push_back({"1f1b", 2, {"F", "B"}});
  for (const auto& [schedule, micro_batches, letters] : cases) {
    SCOPED_TRACE(schedule);
    constexpr int kSteps = 4;
    const TemporaryFolder folder;
    StagedOptions options = staged_options(2, schedule, micro_batches);
    options.saves = false;
    options.steps = kSteps;
    options.example.insert(options.example.end(), {"--trace", folder.file("trace.json")});
    TrainingRun run(options, folder.path());
    ASSERT_EQ(run.exit_code(), 0) << run.process().error();
    std::map<int, std::multiset<std::string>> expected;
    for (int stage = 0; stage < 2; ++stage)
      for (const std::string& letter : letters)
        for (int i = 0; i < kSteps * micro_batches; ++i) {
          // Without a flush they are counted from the beginning.
          const int number = micro_batches == 1 ? i : i % micro_batches;
          expected[stage].insert(letter + " micro-batch " + std::to_string(number) + " on stage " +
                                 std::to_string(stage));
        }
    EXPECT_EQ(computed_in(folder.file("trace.json")), expected);
  }
}

TEST(StagedFaces, TopShowsStageAndBubbleOfEachRank) {
  const TemporaryFolder folder;
  StagedOptions options = staged_options(2, "1f1b", 4);
  options.saves = false;
  options.steps = 100'000;
  TrainingRun run(options, folder.path());
  ASSERT_TRUE(run.reaches(3)) << run.process().error();
  const std::string job = variable_of(run.workers().front(), "PACELINE_JOB");
  const Finished top = test::run({.command = {binary("paceline"), "top", "--once", "--json",
                                              "--interval", "300ms", "--job", job}});
  const json ranks = json::parse(top.output).at("ranks");
  ASSERT_EQ(ranks.size(), 2U);
  for (const std::size_t rank : {0, 1}) {
    EXPECT_EQ(ranks[rank].at("stages"), std::to_string(rank));
    EXPECT_GT(ranks[rank].at("bubble"), 0);
    EXPECT_LT(ranks[rank].at("bubble"), 1);
    EXPECT_THAT(ranks[rank].at("state").get<std::string>(),
                HasSubstr("stage " + std::to_string(rank) + ", bubble "));
  }
  run.process().send(SIGTERM);
  EXPECT_TRUE(run.process().wait(Deadline::in(10s)));
}

}  // namespace
}  // namespace paceline::test
#endif
