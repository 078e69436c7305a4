// Runs that are killed, stopped, restarted and resumed end with the bits of one that was not. With
// real processes it covers paceline/app/launch/run/launched_generation.h and
// paceline/app/launch/process/signals.h too.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <unistd.h>

#include <iostream>

#include "paceline/core/base/seed.h"
#include "tests/support/nightly.h"
#include "tests/support/seed.h"
#include "tests/support/training_run.h"

namespace paceline::test {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

using Options = TrainingRun::Options;

std::string text_of(const Options& options) {
  std::string text = std::to_string(options.ranks) + " ranks";
  for (const std::string& word : options.example) text += " " + word;
  return text;
}

// --- killed --------------------------------------------------------------------------------------

// Everything is killed at a random moment, twice, and resumed.
void expect_same_bits_after_kills(Options options, std::uint64_t seed) {
  SCOPED_TRACE(text_of(options));
  const std::string expected = undisturbed_sha256(options);
  const TemporaryFolder folder;
  SeededNumbers numbers(seed);
  for (int kills = 0; kills < 2; ++kills) {
    TrainingRun run(options, folder.path());
    const auto step = 1 + static_cast<std::int64_t>(numbers.below(
                              static_cast<std::uint64_t>(options.steps) * (kills + 1) / 3));
    ASSERT_TRUE(run.reaches(step)) << run.process().error();
    for (const pid_t worker : run.workers()) ::kill(worker, SIGKILL);
    run.process().send(SIGKILL);
    EXPECT_EQ(run.exit_code(), 137);
    options.resume = true;
  }
  TrainingRun last(options, folder.path());
  ASSERT_EQ(last.exit_code(), 0) << last.process().error();
  EXPECT_EQ(last.sha256(), expected);
}

TEST(Resume, AfterKillsAtRandomMomentsTheBitsAreThoseOfAnUndisturbedRun) {
  std::vector<Options> all;
  for (const char* model : {"mlp", "cnn"})
    for (const char* type : {"float32", "float64"})
      for (const int ranks : {1, 2, 3})
        all.push_back({.ranks = ranks,
                       .example = {"--model", model, "--dtype", type},
                       .steps = model == std::string("mlp") ? 200
                                : is_nightly()              ? 80
                                                            : 50,
                       .every = 10});
  for (const char* schedule : {"barrier", "wait_free", "merged", "priority", "general"})
    all.push_back({.example = {"--model", "mlp", "--schedule", schedule}, .every = 10});
  for (const char* schedule : {"buckets", "barrier", "wait_free"})
    for (const char* method : {"top_k:ratio=0.01", "int8", "power_sgd:rank=2", "ef_sign", "dgc"})
      all.push_back({.example = {"--model", "mlp", "--schedule", schedule, "--compression", method},
                     .every = 10});
  SeededNumbers numbers(seed(1));
  // One of each kind is enough by day.
  const std::vector<std::size_t> by_day = {numbers.below(17), 17 + numbers.below(15)};
  for (std::size_t i = 0; i < all.size(); ++i)
    if (is_nightly() || std::ranges::count(by_day, i) > 0)
      expect_same_bits_after_kills(all[i], seed(i + 2));
}

// --- restarted -----------------------------------------------------------------------------------

double seconds_of(Clock::duration time) {
  return std::chrono::duration<double>(time).count();
}

TEST(Resume, TheLauncherStartsAFailedRunAgainAndAtMostTwoIntervalsAreLost) {
  const int kills = is_nightly() ? 5 : 2;
  for (const int ranks : is_nightly() ? std::vector{2, 4} : std::vector{2}) {
    const Options options{.ranks = ranks,
                          .launcher = {"--max-restarts", "10"},
                          .example = {"--model", "mlp"},
                          .steps = 400};
    const std::string expected = undisturbed_sha256(options);
    const TemporaryFolder folder;
    TrainingRun run(options, folder.path());
    SeededNumbers numbers(seed(static_cast<std::uint64_t>(ranks)));
    std::vector<Clock::duration> until_next_step;
    for (int i = 0; i < kills; ++i) {
      const std::int64_t share = 320 / kills;
      const auto at = 40 + share * i +
                      static_cast<std::int64_t>(numbers.below(static_cast<std::uint64_t>(share)));
      ASSERT_TRUE(run.reaches(at)) << run.process().error();
      const auto workers = run.workers();
      ASSERT_EQ(workers.size(), static_cast<std::size_t>(ranks));
      const std::int64_t before = run.last_step();
      run.forget_metrics();  // the next ones are those of the next generation
      const auto killed_at = Clock::now();
      ::kill(workers[numbers.below(workers.size())], SIGKILL);
      const std::string going_on = "as generation " + std::to_string(i + 2);
      ASSERT_TRUE(run.process().wait_for_error(going_on, Deadline::in(20s)));
      ASSERT_TRUE(run.reaches(1)) << run.process().error();
      until_next_step.push_back(Clock::now() - killed_at);
      EXPECT_GE(run.first_step(), before - 2 * options.every);
    }
    std::ranges::sort(until_next_step);
    EXPECT_LT(until_next_step.back(), 12s);
    const Clock::duration median = until_next_step[until_next_step.size() / 2];
    std::cout << ranks << " ranks: the next first step came " << seconds_of(median)
              << " s after a kill (median), " << seconds_of(until_next_step.back())
              << " s at most\n";
    EXPECT_TRUE(median < 6s || !is_nightly());
    EXPECT_EQ(run.exit_code(), 0) << run.process().error();
    EXPECT_EQ(run.sha256(), expected);
    EXPECT_THAT(run.process().error(), HasSubstr("the newest checkpoint is of step"));
    EXPECT_THAT(run.process().error(), Not(HasSubstr("exit code")));
  }
}

TEST(Resume, AProgramThatAlwaysFailsIsStartedNoMoreThanAskedFor) {
  const auto run = [](const std::string& behaviour) {
    auto options = run_probe(2, {behaviour}, {"--max-restarts", "1"});
    return test::run(options, Deadline::in(30s));
  };
  const Finished failing = run("exit:3");
  EXPECT_EQ(failing.exit_code, 3);
  EXPECT_THAT(failing.error, AllOf(HasSubstr("restart in 1 s as generation 2"),
                                   HasSubstr("no restart after 2 failures")));
  const Finished misused = run("exit:2");
  EXPECT_EQ(misused.exit_code, 2);
  EXPECT_THAT(misused.error, Not(HasSubstr("as generation 2")));
}

// Rank 0 saves two checkpoints, damages both and fails.
TEST(Resume, ARestartBeginsNothingAtStepZeroWhereNoCheckpointIsWholeAndNewSetsThemAside) {
  const TemporaryFolder folder;
  const TrainingFiles files(folder.path());
  const auto line = [&](int steps, const std::string& more) {
    std::string words;
    for (const std::string& word : files.command(steps, 20, {"--model", "linear"}))
      words += word + " ";
    return words + more;
  };
  const std::string script =
      "[ $PACELINE_GENERATION = 1 ] || exec " + line(60, "") + "; " + line(40, "") +
      " || exit 9; [ $PACELINE_RANK = 1 ] && exit 0; for file in " + files.directory() +
      "/step-*/model-*; do truncate -s -1 $file; done; exit 3";
  const Finished restarted = test::run(
      paceline_run({"-n", "2", "--max-restarts", "5"}, {"bash", "-c", script}), Deadline::in(60s));
  EXPECT_EQ(restarted.exit_code, 2) << restarted.error;
  EXPECT_THAT(restarted.error,
              AllOf(HasSubstr("as generation 2"), HasSubstr("none of the 2 checkpoints"),
                    HasSubstr("no restart: another start would end in the same way")));
  EXPECT_EQ(files.saved_steps(), (std::vector<std::int64_t>{20, 40}));
  const Finished anew =
      test::run(paceline_run({"-n", "2"}, {"bash", "-c", "exec " + line(60, "--resume=new")}),
                Deadline::in(60s));
  EXPECT_EQ(anew.exit_code, 0) << anew.error;
  EXPECT_THAT(anew.error, HasSubstr(files.directory() + "/aside-1"));
  EXPECT_EQ(files.first_step(), 1);
  EXPECT_EQ(files.saved_steps(), (std::vector<std::int64_t>{40, 60}));
  for (const char* step : {"step-00000020", "step-00000040"})
    EXPECT_TRUE(std::filesystem::exists(files.directory() + "/aside-1/" + step));
}

// --- stopped -------------------------------------------------------------------------------------

// SIGTERM, in this way, after some steps: all save the same step and end with 143; the resumed run
// ends as if nothing had been.
void expect_stop_and_resume(Options options, const std::function<void(TrainingRun&)>& stop,
                            const std::string& expected) {
  const TemporaryFolder folder;
  options.every = 1000;
  options.launcher = {"--max-restarts", "3"};
  {
    TrainingRun run(options, folder.path());
    ASSERT_TRUE(run.reaches(30)) << run.process().error();
    stop(run);
    EXPECT_EQ(run.exit_code(), 143) << run.process().error();
    EXPECT_THAT(run.process().error(), Not(HasSubstr("generation 2")));
    ASSERT_EQ(run.saved_steps().size(), 1U);
    EXPECT_LE(run.last_step(), run.saved_steps().front());
  }
  options.resume = true;
  TrainingRun again(options, folder.path());
  EXPECT_EQ(again.exit_code(), 0) << again.process().error();
  EXPECT_EQ(again.sha256(), expected);
}

TEST(Resume, SigtermSavesOneStepOnAllRanksAndEndsWith143) {
  const Options options{.example = {"--model", "mlp"}, .steps = 200};
  const std::string expected = undisturbed_sha256(options);
  const auto to_launcher = [](TrainingRun& run) { run.process().send(SIGTERM); };
  expect_stop_and_resume(options, to_launcher, expected);
  expect_stop_and_resume(
      options, [](TrainingRun& run) { ::kill(run.workers().back(), SIGTERM); }, expected);
  Options behind_a_shell = options;
  behind_a_shell.behind_a_shell = true;
  expect_stop_and_resume(behind_a_shell, to_launcher, expected);
}

TEST(Resume, ControlCAndAHangupSaveAsSigtermDoes) {
  for (const int number : {SIGINT, SIGHUP}) {
    const TemporaryFolder folder;
    TrainingRun run({.launcher = {"--max-restarts", "3"},
                     .example = {"--model", "linear"},
                     .steps = 100'000,
                     .every = 1'000'000},
                    folder.path());
    ASSERT_TRUE(run.reaches(10)) << run.process().error();
    run.process().send(number);
    EXPECT_EQ(run.exit_code(), 128 + number) << run.process().error();
    ASSERT_EQ(run.saved_steps().size(), 1U) << "signal " << number;
    EXPECT_LE(run.last_step(), run.saved_steps().front());
  }
}

TEST(Resume, Sigusr1SavesAndTrainingGoesOnAlsoBehindAShell) {
  const TemporaryFolder folder;
  const Options options{
      .example = {"--model", "mlp"}, .behind_a_shell = true, .steps = 300, .every = 1000};
  TrainingRun run(options, folder.path());
  ASSERT_TRUE(run.reaches(30)) << run.process().error();
  run.process().send(SIGUSR1);
  EXPECT_EQ(run.exit_code(), 0) << run.process().error();
  const auto steps = run.saved_steps();
  ASSERT_EQ(steps.size(), 2U);
  EXPECT_GE(steps[0], 30);
  EXPECT_LT(steps[0], 300);
  EXPECT_EQ(steps[1], 300);
}

// Workers that wait for nobody; one of them is slow.
TEST(Resume, WorkersThatTakePartsAsTheyComeStopTogetherAndLeaveNoPartOutOnAnotherNumberOfThem) {
  const TemporaryFolder folder;
  Options options{.ranks = 2,
                  .example = {"--model", "linear", "--synchrony", "async_gossip", "--pace", "5",
                              "--slow", "1:4"},
                  .steps = 120,
                  .every = 1000};
  {
    TrainingRun run(options, folder.path());
    ASSERT_TRUE(run.reaches(20)) << run.process().error();
    ::kill(run.workers().back(), SIGTERM);
    EXPECT_EQ(run.exit_code(), 143) << run.process().error();
    ASSERT_EQ(run.saved_steps().size(), 1U);
    EXPECT_LT(run.saved_steps().back(), 120);
  }
  options.resume = true;
  options.ranks = 4;
  options.example.resize(4);
  for (const bool is_over : {false, true}) {
    TrainingRun run(options, folder.path());
    EXPECT_EQ(run.exit_code(), 0) << run.process().error();
    EXPECT_EQ(run.first_step() == 0, is_over) << "no part is left after the last";
  }
  options.steps = 140;
  TrainingRun further(options, folder.path());
  EXPECT_EQ(further.exit_code(), 0) << further.process().error();
  EXPECT_GT(further.first_step(), 120) << "parts of further steps are left";
}

// --- one directory, one job; full disks ----------------------------------------------------------

TEST(Resume, ASecondJobIsToldWhoHasTheDirectoryAndAKilledOneHasItNoMore) {
  const TemporaryFolder folder;
  const Options options{.example = {"--model", "mlp"}, .steps = 5000, .every = 500};
  TrainingRun first(options, folder.path());
  ASSERT_TRUE(first.reaches(10)) << first.process().error();
  const pid_t holder = first.workers().front();
  Options other = options;
  other.resume = true;
  {
    // Its metrics are its own: the first run writes on.
    const TemporaryFolder elsewhere;
    std::filesystem::create_directory_symlink(first.directory(), elsewhere.path() / "checkpoints");
    TrainingRun second(other, elsewhere.path());
    EXPECT_EQ(second.exit_code(), 2);
    EXPECT_THAT(second.process().error(), AllOf(ContainsRegex("in use by job [0-9a-f]+, host "),
                                                HasSubstr("process " + std::to_string(holder))));
  }
  for (const pid_t worker : first.workers()) ::kill(worker, SIGKILL);
  first.process().send(SIGKILL);
  EXPECT_EQ(first.exit_code(), 137);
  other.steps = 20;
  TrainingRun third(other, folder.path());
  EXPECT_EQ(third.exit_code(), 0) << third.process().error();
}

// Rank 1 sees another file system where rank 0 saves, as on a host that does not share it.
TEST(Resume, ADirectoryThatNotAllHostsShareIsRefusedWithTheRankThatDoesNotSeeIt) {
  if (!is_nightly()) GTEST_SKIP() << "7 s: runs with PACELINE_NIGHTLY=1";
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to mount a file system for one rank";
  const TemporaryFolder folder;
  const TrainingFiles files(folder.path());
  std::filesystem::create_directory(files.directory());
  std::string program;
  for (const std::string& word : files.command(100, 20, {"--model", "linear"}))
    program += " " + word;
  const std::string script = "[ $PACELINE_RANK = 0 ] && exec" + program +
                             "; exec unshare -m sh -c 'mount -t tmpfs none " + files.directory() +
                             " && exec" + program + "'";
  const Finished refused = test::run(
      paceline_run({"-n", "2", "--max-restarts", "3"}, {"bash", "-c", script}), Deadline::in(60s));
  EXPECT_EQ(refused.exit_code, 2) << refused.error;
  EXPECT_THAT(refused.error,
              AllOf(ContainsRegex("rank 1 on host .* does not see the directory"),
                    HasSubstr(files.directory()), HasSubstr("give one that all hosts share"),
                    Not(HasSubstr("as generation 2"))));
}

// A small file system in memory, mounted at a folder.
class SmallDisk {
 public:
  explicit SmallDisk(const std::string& path) : path_(path) {
    std::filesystem::create_directory(path_);
    is_mounted_ = ::mount("tmpfs", path_.c_str(), "tmpfs", 0, "size=40m") == 0;
  }
  ~SmallDisk() {
    if (is_mounted_) ::umount2(path_.c_str(), MNT_DETACH);
  }
  bool is_mounted() const { return is_mounted_; }
  bool enlarge() const {
    return ::mount("tmpfs", path_.c_str(), "tmpfs", MS_REMOUNT, "size=200m") == 0;
  }

 private:
  const std::string path_;
  bool is_mounted_ = false;
};

TEST(Resume, WhereThereIsNoRoomForAThirdCheckpointTheLastOneStaysAndTrainingGoesOn) {
  const TemporaryFolder folder;
  const SmallDisk disk(folder.path() / "checkpoints");
  if (!disk.is_mounted()) GTEST_SKIP() << "needs root, to mount a small file system";
  TrainingRun run({.example = {"--model", "mlp"}, .steps = 300, .every = 20}, folder.path());
  ASSERT_TRUE(run.process().wait_for_error("no checkpoint of step 60", Deadline::in(60s)));
  EXPECT_THAT(run.process().error(),
              AllOf(HasSubstr("No space left on device"), HasSubstr("are free there")));
  EXPECT_EQ(run.saved_steps(), (std::vector<std::int64_t>{20, 40}));
  ASSERT_TRUE(disk.enlarge());
  EXPECT_EQ(run.exit_code(), 0) << run.process().error();
  EXPECT_EQ(run.saved_steps(), (std::vector<std::int64_t>{280, 300}));
}

// fsync fails with EIO in one rank while a tracer holds it.
void expect_saves_again_after_failed_syncs(std::size_t victim, const std::string& when) {
  SCOPED_TRACE("rank " + std::to_string(victim) + when);
  const TemporaryFolder folder;
  TrainingRun run({.example = {"--model", "mlp"}, .steps = 300, .every = 20}, folder.path());
  ASSERT_TRUE(run.reaches(50)) << run.process().error();
  const auto workers = run.workers();
  ASSERT_EQ(workers.size(), 2U);
  {
    Process tracer(
        {.command = {"strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=fsync", "-e",
                     "inject=fsync:error=EIO" + when, "-p", std::to_string(workers[victim])}});
    ASSERT_TRUE(run.process().wait_for_error(": no checkpoint of step ", Deadline::in(60s)))
        << tracer.error();
    EXPECT_THAT(run.process().error(), HasSubstr("Input/output error"));
    EXPECT_FALSE(run.saved_steps().empty());
    tracer.send(SIGINT);  // it lets go of the rank
    (void)tracer.wait(Deadline::in(10s));
  }
  EXPECT_EQ(run.exit_code(), 0) << run.process().error();
  EXPECT_EQ(run.saved_steps(), (std::vector<std::int64_t>{280, 300}));
  const Finished verified =
      test::run({.command = {binary("paceline"), "checkpoint", "verify", run.directory()}},
                Deadline::in(20s));
  EXPECT_EQ(verified.exit_code, 0) << verified.output;
}

TEST(Resume, WhereFilesCannotBeMadeDurableTheLastCheckpointStaysAndLaterSavesWork) {
  expect_saves_again_after_failed_syncs(1, "");
  if (!is_nightly()) return;
  // The n-th sync of each thread: that of a file of the share, or, as the share has three files, of
  // the directory after the commit.
  for (const char* when : {"", ":when=1", ":when=2", ":when=3", ":when=4"})
    expect_saves_again_after_failed_syncs(0, when);
}

}  // namespace
}  // namespace paceline::test
