#include "paceline/app/cli/run/emit_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/core/base/result.h"

namespace paceline::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

launch::RunOptions run_of(std::vector<std::string> command) {
  launch::RunOptions run;
  run.processes = 2;
  run.command = std::move(command);
  return run;
}

launch::RunPlan planned(const std::string& target, const EmitOptions& given,
                        const launch::RunOptions& run, const launch::Environment& settings = {}) {
  return plan_of(parse_target(target), given, run, settings);
}

TEST(EmitPlan, IsCalledLikeItsProgramOrAsItWasTold) {
  const std::vector<std::pair<const char*, const char*>> names = {
      {"./train", "train"},
      {"bin/Fashion_MNIST.py", "fashion-mnist"},
      {"7zip", "run-7zip"},
      {"/a/.hidden", "run--hidden"},
      {"-_-", "run"}};
  for (const auto& [program, name] : names)
    EXPECT_EQ(planned("slurm", {}, run_of({program})).name, name);
  EXPECT_EQ(planned("slurm", {}, run_of({std::string(100, 'x')})).name, std::string(40, 'x'));
  EXPECT_EQ(planned("slurm", {.name = "night-7"}, run_of({"train"})).name, "night-7");
  for (const char* wrong : {"Night", "7", "a-", "-a", "a_b", "a.b"})
    EXPECT_THROW(planned("slurm", {.name = wrong}, run_of({"train"})), Error) << wrong;
}

TEST(EmitPlan, RoundsTimesUpToSeconds) {
  auto run = run_of({"train"});
  run.stop_grace = std::chrono::milliseconds(1500);
  run.timeout = std::chrono::milliseconds(1);
  const auto plan = planned("slurm", {}, run);
  EXPECT_EQ(plan.stop_grace, std::chrono::seconds(2));
  EXPECT_EQ(plan.timeout, std::chrono::seconds(1));
}

TEST(EmitPlan, AnOptionWinsOverAVariableOfThisShell) {
  auto run = run_of({"train"});
  run.transport = "nccl";
  run.passed = {"COLOUR=blue", "OMP_NUM_THREADS=3"};
  const auto plan = planned("slurm", {}, run,
                            {"PACELINE_TRANSPORT=tcp", "PACELINE_LOG=debug", "OMP_NUM_THREADS=1"});
  EXPECT_THAT(plan.environment, ElementsAre("PACELINE_LOG=debug", "PACELINE_TRANSPORT=nccl",
                                            "COLOUR=blue", "OMP_NUM_THREADS=3"));
  EXPECT_EQ(plan.devices, 2) << "NCCL wants one for each process";
}

TEST(EmitPlan, AsksForTheDevicesThatTheRunNamesOrItsRanksShare) {
  auto run = run_of({"train"});
  EXPECT_EQ(planned("slurm", {}, run).devices, 0);
  run.processes = 6;
  run.ranks_per_device = 2;
  EXPECT_EQ(planned("slurm", {}, run).devices, 3);
  run.devices = {"1", "0", "2"};
  EXPECT_EQ(planned("slurm", {}, run).devices, 3);
  run.ranks_per_device = 0;
  EXPECT_EQ(planned("slurm", {}, run).devices, 3) << "ranks take them in turn";
  for (const auto& wrong : std::vector<std::vector<std::string>>{{"1"}, {"0", "2"}, {"GPU-a"}}) {
    run.devices = wrong;
    EXPECT_THROW(planned("slurm", {}, run), Error) << wrong.back();
  }
}

TEST(EmitPlan, TellsRanksThatMpirunStartsHowTheyShareDevices) {
  auto run = run_of({"train"});
  run.processes = 4;
  run.devices = {"0", "1"};
  run.ranks_per_device = 2;
  run.device_transport = "staged";
  const EmitOptions given = {.image = "i",
                             .for_launchers = {{"--devices", "0,1"}, {"--ranks-per-device", "2"}}};
  EXPECT_THAT(planned("mpijob", given, run).environment,
              ElementsAre("PACELINE_DEVICE_TRANSPORT=staged", "PACELINE_RANKS_PER_DEVICE=2"));
  const auto pods = planned("pytorchjob", given, run);
  EXPECT_THAT(pods.environment, ElementsAre("PACELINE_DEVICE_TRANSPORT=staged"));
  EXPECT_THAT(pods.options, ElementsAre("--devices", "0,1", "--ranks-per-device", "2"));
}

TEST(EmitPlan, GivesCheckpointsAVolumeAtTheirFolderOrTheOneThatWasTold) {
  const EmitOptions image = {.image = "i"};
  EXPECT_FALSE(planned("compose", image, run_of({"train"})).volume);
  for (const auto& words : std::vector<std::vector<std::string>>{
           {"train", "--checkpoint-dir", "/runs/a"}, {"train", "--checkpoint-dir=/runs/a"}}) {
    const auto own = planned("pytorchjob", image, run_of(words)).volume;
    ASSERT_TRUE(own);
    EXPECT_EQ(own->source, "train-checkpoints");
    EXPECT_EQ(own->path, "/runs/a");
    const auto named =
        planned("pytorchjob", {.image = "i", .volume = "disk"}, run_of(words)).volume;
    EXPECT_EQ(named->source, "disk");
    EXPECT_EQ(named->path, "/runs/a");
    const auto both =
        planned("compose", {.image = "i", .volume = "./here:/runs"}, run_of(words)).volume;
    EXPECT_EQ(both->source, "./here");
    EXPECT_EQ(both->path, "/runs");
  }
  EXPECT_FALSE(planned("slurm", {}, run_of({"train", "--checkpoint-dir", "runs/a"})).volume);
}

TEST(EmitPlan, RefusesFoldersThatOnlyLookAsIfTheyWereOnTheVolume) {
  const EmitOptions given = {.image = "i", .volume = "disk:/runs"};
  for (const char* folder : {"/runs2", "/runs/../x", "/", "runs"})
    EXPECT_THROW(planned("compose", given, run_of({"train", "--checkpoint-dir", folder})), Error)
        << folder;
  for (const char* folder : {"/runs", "/runs/", "/runs/a/b", "/x/../runs/a"})
    EXPECT_TRUE(planned("compose", given, run_of({"train", "--checkpoint-dir", folder})).volume)
        << folder;
}

TEST(EmitPlan, HandsLaunchersTheirOptionsInOrder) {
  const auto plan =
      planned("slurm", {.nodes = 3, .for_launchers = {{"--grace", "2s"}, {"--no-prefix", ""}}},
              run_of({"train"}));
  EXPECT_THAT(plan.options, ElementsAre("--grace", "2s", "--no-prefix"));
  EXPECT_EQ(plan.nodes, 3);
}

TEST(EmitTargets, AreListedForTheHelp) {
  for (const launch::Target& target : launch::targets()) {
    EXPECT_THAT(targets_text(), HasSubstr(target.name));
    EXPECT_THAT(targets_text(), HasSubstr(target.about));
  }
}

}  // namespace
}  // namespace paceline::cli
