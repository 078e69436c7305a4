// The example of a click model whose rows lie on servers, alone, on workers, saved and resumed. Runs
// click_through.
#ifdef PACELINE_WITH_TORCH
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include <nlohmann/json.hpp>

#include "tests/support/launched.h"
#include "tests/support/nightly.h"
#include "tests/support/temporary_folder.h"

namespace paceline::test {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using Words = std::vector<std::string>;

Words click_through(const Words& options) {
  Words command = {binary("click_through"), "--threads", "1"};
  command.insert(command.end(), options.begin(), options.end());
  return command;
}

json summary_in(const std::string& metrics) {
  json summary;
  std::ifstream file(metrics);
  for (std::string line; std::getline(file, line);) summary = json::parse(line);
  EXPECT_EQ(summary["event"], "summary") << summary;
  return summary;
}

// The summary of a training; `launcher`: options of `paceline run`, or none to start it alone.
json trained_clicks(const Words& launcher, const Words& options) {
  const TemporaryFolder folder;
  Words all = options;
  all.insert(all.end(), {"--metrics", folder.file("metrics")});
  const ProcessOptions process = launcher.empty() ? ProcessOptions{.command = click_through(all)}
                                                  : paceline_run(launcher, click_through(all));
  const Finished finished = run(process, Deadline::in(120s));
  EXPECT_EQ(finished.exit_code, 0) << finished.error;
  EXPECT_THAT(finished.output, HasSubstr(" held-out lines; "));
  return summary_in(folder.file("metrics"));
}

TEST(ClickThrough, AsynchronousWorkersRankAsWellAsOneAndBetterThanTheWidePartAlone) {
  const int seeds = is_nightly() ? 3 : 1;
  for (int seed = 1; seed <= seeds; ++seed) {
    const Words options = {"--seed", std::to_string(seed)};
    const Words wide_only = {"--seed", std::to_string(seed), "--wide-only"};
    const json one = trained_clicks({}, options), wide = trained_clicks({}, wide_only);
    const json four = trained_clicks({"-n", "4", "--servers", "2"},
                                     {"--seed", std::to_string(seed), "--synchrony", "asp"});
    EXPECT_EQ(four["world_size"], 4);
    EXPECT_EQ(four["servers"], 2);
    EXPECT_EQ(four["rows_stored"], one["rows_stored"]) << "each category's row was pushed once";
    EXPECT_NEAR(four["auc"], one["auc"], 0.01) << "seed " << seed;
    EXPECT_GT(four["auc"].get<double>(), wide["auc"].get<double>() + 0.01) << "seed " << seed;
    EXPECT_LT(four["log_loss"].get<double>(), wide["log_loss"].get<double>()) << "seed " << seed;
    EXPECT_GT(wide["auc"].get<double>(), 0.7) << "the wide part knows single categories";
    RecordProperty("seed_" + std::to_string(seed), one["auc"].dump() + " alone, " +
                                                       four["auc"].dump() + " on four, " +
                                                       wide["auc"].dump() + " by the wide part");
  }
}

TEST(ClickThrough, WhatGoesOnFromASaveOnOtherServersEndsWithTheSameBits) {
  const TemporaryFolder folder;
  const Words options = {"--lines", "10000", "--synchrony", "bsp"};
  const json whole = trained_clicks({"-n", "2"}, options);  // the workers keep the rows
  Words saving = options, resuming = options;
  const Words saves = {"--checkpoint-dir", folder.file("run"), "--checkpoint-every", "25"};
  saving.insert(saving.end(), saves.begin(), saves.end());
  const json saved = trained_clicks({"-n", "2", "--servers", "2"}, saving);
  std::filesystem::remove_all(folder.file("run/step-00000045"));  // the run ended after step 25
  resuming = saving;
  resuming.emplace_back("--resume");
  const json resumed = trained_clicks({"-n", "2", "--servers", "3"}, resuming);
  EXPECT_EQ(resumed["first_step"], 25);
  for (const char* digest : {"parameters_sha256", "scores_sha256"}) {
    EXPECT_EQ(saved[digest], whole[digest]) << digest;
    EXPECT_EQ(resumed[digest], whole[digest]) << digest;
  }
  EXPECT_EQ(resumed["rows_stored"], whole["rows_stored"]);
}

// The server of this number in a run that has a variable of the test's; 0: there is none.
pid_t click_server(const std::string& folder, int number) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const pid_t pid = std::atoi(entry.path().filename().c_str());
    if (pid > 0 && variable_of(pid, "PACELINE_SERVER_INDEX") == std::to_string(number) &&
        variable_of(pid, "PACELINE_TEST_FOLDER") == folder)
      return pid;
  }
  return 0;
}

TEST(ClickThrough, AKilledServerWhoseRowsAnotherOneHasCostsNoAccuracy) {
  const int seeds = is_nightly() ? 3 : 1;
  for (int seed = 1; seed <= seeds; ++seed) {
    const TemporaryFolder folder;
    const Words options = {"--seed", std::to_string(seed)};
    Words watched = options;
    watched.insert(watched.end(), {"--metrics", folder.file("metrics")});
    ProcessOptions process =
        paceline_run({"-n", "4", "--servers", "2", "--replicas", "2"}, click_through(watched));
    process.environment["PACELINE_TEST_FOLDER"] = folder.path();
    Process launcher(process);
    ASSERT_TRUE(launcher.wait_for_output("[0] step 1/225", Deadline::in(60s))) << launcher.error();
    const pid_t victim = click_server(folder.path(), seed % 2);
    ASSERT_GT(victim, 0);
    ::kill(victim, SIGKILL);
    EXPECT_EQ(exit_code(launcher.wait(Deadline::in(120s))), 0) << launcher.error();
    EXPECT_THAT(launcher.error(), HasSubstr("the job goes on, and server 2 is started"));
    const json four = summary_in(folder.file("metrics")), one = trained_clicks({}, options);
    EXPECT_EQ(four["rows_stored"], one["rows_stored"]);
    EXPECT_NEAR(four["auc"], one["auc"], 0.01) << "seed " << seed;
  }
}

// The last step of an epoch has 3 lines, so that one worker has none.
TEST(ClickThrough, WorkersThatWaitForEachOtherTrainAsOneAlsoWhereOneHasNoLine) {
  const Words options = {"--lines",  "1003", "--batch",     "300",
                         "--epochs", "3",    "--synchrony", "bsp"};
  const json one = trained_clicks({}, options);
  const json four = trained_clicks({"-n", "4", "--servers", "2"}, options);
  EXPECT_EQ(four["steps"], 12);
  EXPECT_EQ(four["rows_stored"], one["rows_stored"]);
  EXPECT_NEAR(four["log_loss"], one["log_loss"], 1e-4);
  EXPECT_NEAR(four["auc"], one["auc"], 1e-3);
}

TEST(ClickThrough, LinesFromAFileTrainAsThoseThatItDraws) {
  const TemporaryFolder folder;
  const std::string file = folder.file("clicks");
  const Words drawn = {"--lines", "3000", "--seed", "5"};
  Words generate = drawn;
  generate.insert(generate.end(), {"--generate", file});
  ASSERT_EQ(run({.command = click_through(generate)}).exit_code, 0);
  const json from_file = trained_clicks({}, {"--train", file, "--seed", "5"});
  EXPECT_EQ(from_file["training_lines"], 2'700);
  EXPECT_EQ(from_file["held_out_lines"], 300);
  EXPECT_EQ(from_file["scores_sha256"], trained_clicks({}, drawn)["scores_sha256"]);
  EXPECT_EQ(trained_clicks({}, {"--train", file, "--test", file})["held_out_lines"], 3'000);
}

TEST(ClickThrough, WrongOptionsEndWithTwoAndSayWhatIsRight) {
  const TemporaryFolder folder;
  const std::string bad = folder.file("bad"), few = folder.file("few"),
                    alike = folder.file("alike"), line = std::string(39, '\t');
  std::ofstream(bad) << "1" + line + "\n0" + line + "\n2" + line + "\n";
  std::ofstream(few) << "1" + line + "\n";
  for (int i = 0; i < 10; ++i) std::ofstream(alike, std::ios::app) << "0" + line + "\n";
  const std::vector<std::pair<Words, std::string>> cases = {
      {{"--train", "/nowhere"}, "/nowhere"},
      {{"--train", bad}, bad + ", line 3: its first field is '2'"},
      {{"--train", few}, "has 1 lines, of which no tenth can be held out"},
      {{"--train", alike}, "of 1 held-out lines 0 are clicked"},
      {{"--test", few}, "--test requires --train"},
      {{"--train", few, "--lines", "100"}, "excludes"},
      {{"--train", few, "--generate", "x"}, "excludes"},
      {{"--synchrony", "bounded_delay"}, "a sparse table has bsp, ssp or asp"},
      {{"--synchrony", "asp:update=worker"}, "update=server"},
      {{"--epochs", "0"}, "--epochs: Value 0 not in range 1 to"},
      {{"--resume"}, "--checkpoint-dir"}};
  const auto expect = [](const ProcessOptions& process, int code, const std::string& said) {
    const Finished finished = run(process);
    EXPECT_EQ(finished.exit_code, code) << testing::PrintToString(process.command);
    EXPECT_THAT(finished.error + finished.output, HasSubstr(said));
  };
  for (const auto& [options, said] : cases) expect({.command = click_through(options)}, 2, said);
  expect(paceline_run({"-n", "2"}, click_through({"--lines", "40", "--batch", "1"})), 2,
         "global batch");
  expect({.command = click_through({"--generate", folder.file("none/clicks")})}, 1,
         "none/clicks: No such file or directory");
}

TEST(ClickThrough, HelpTellsWhatIsMeasuredAndHowToStartIt) {
  const Finished help = run({.command = click_through({"--help"})});
  EXPECT_EQ(help.exit_code, 0);
  for (const char* words : {"paceline run -n 4 --servers 2", "AUC", "Criteo", "--wide-only", "asp"})
    EXPECT_THAT(help.output, HasSubstr(words));
}

}  // namespace
}  // namespace paceline::test
#endif
