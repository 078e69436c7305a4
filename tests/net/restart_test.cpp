// Restarts over several hosts: workers, agents and whole hosts are killed, and the run goes on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/several_hosts.h"
#include "tests/support/training_run.h"

namespace paceline::test {
namespace {

using ::testing::HasSubstr;

constexpr int kSteps = 250, kEvery = 20;
const std::vector<std::string> kModel = {"--model", "linear", "--batch-size",
                                         "512",     "--pace", "10"};

std::string expected_sha256() {
  static const std::string sha256 =
      undisturbed_sha256({.ranks = 4, .example = kModel, .steps = kSteps});
  return sha256;
}

class RestartOverHosts : public SeveralHosts {
 protected:
  // Kills the processes of host 2 that have this word, twice; each time the run goes on.
  void expect_same_bits_after_killing(const std::string& word) {
    const TrainingFiles files(folder_);
    Process launcher(run_over(2, {"--max-restarts", "5"}, files.command(kSteps, kEvery, kModel)));
    const std::string host = net_of(launcher)["PACELINE_NET"] + "-2";
    for (const int step : {50, 110}) {
      ASSERT_TRUE(reaches(launcher, files, step)) << launcher.error();
      const auto victims = on_host(host, word);
      ASSERT_FALSE(victims.empty()) << word;
      files.forget_metrics();
      for (const pid_t victim : victims) ::kill(victim, SIGKILL);
      ASSERT_TRUE(launcher.wait_for_error(step == 50 ? "as generation 2" : "as generation 3",
                                          Deadline::in(20s)))
          << launcher.error();
    }
    EXPECT_EQ(exit_code(launcher.wait(Deadline::in(60s))), 0) << launcher.error();
    EXPECT_EQ(files.sha256(), expected_sha256());
  }
};

TEST_F(RestartOverHosts, AWorkerThatIsKilledThereIsStartedAgainByItsAgent) {
  expect_same_bits_after_killing("fashion_mnist");
}

TEST_F(RestartOverHosts, AHostWhoseAgentIsKilledIsReachedAgain) {
  expect_same_bits_after_killing("--as-agent");
}

TEST_F(RestartOverHosts, AHostOfWhichEverythingIsKilledIsReachedAgain) {
  expect_same_bits_after_killing("");
}

TEST_F(RestartOverHosts, ANodeWhoseLauncherIsStartedAnewBelongsToTheNextGeneration) {
  const TrainingFiles files(folder_);
  const std::string secret = folder_ / "secret";
  std::ofstream(secret) << std::string(64, '5');
  std::filesystem::permissions(secret, std::filesystem::perms::owner_read);
  const std::string paceline = binary("paceline") +
                               " run --nnodes 2 --rdzv-endpoint ${PACELINE_NET_HOSTS%%,*}:29431 "
                               "--secret-file " +
                               secret + " -n 2 --max-restarts 5 --node-rank ";
  std::string program;
  for (const std::string& word : files.command(kSteps, kEvery, kModel)) program += " " + word;
  // Node 1 is started again whenever it ends otherwise than well.
  const std::string other =
      "until ip netns exec $PACELINE_NET-2 " + paceline + "1 -- " + program + "; do :; done & ";
  Process launcher(
      on_host_1(2, other + paceline + "0 -- " + program + "; code=$?; wait; exit $code"));
  const std::string host = net_of(launcher)["PACELINE_NET"] + "-2";
  ASSERT_TRUE(reaches(launcher, files, 50)) << launcher.error();
  const auto victims = on_host(host, "--node-rank");
  ASSERT_FALSE(victims.empty());
  files.forget_metrics();
  for (const pid_t victim : victims) ::kill(victim, SIGKILL);
  EXPECT_EQ(exit_code(launcher.wait(Deadline::in(60s))), 0) << launcher.error();
  EXPECT_THAT(launcher.error(), HasSubstr("as generation 2"));
  EXPECT_EQ(files.sha256(), expected_sha256());
}

// A batch system tells the launchers of all nodes; here the one of node 1 hears first.
TEST_F(RestartOverHosts, ASigtermToTheLaunchersOfAllNodesSavesOneStepAndEndsTheRun) {
  const TrainingFiles files(folder_);
  const std::string secret = folder_ / "secret";
  std::ofstream(secret) << std::string(64, '5');
  std::filesystem::permissions(secret, std::filesystem::perms::owner_read);
  const std::string paceline = binary("paceline") +
                               " run --nnodes 2 --rdzv-endpoint ${PACELINE_NET_HOSTS%%,*}:29432 "
                               "--secret-file " +
                               secret + " -n 2 --max-restarts 5 --node-rank ";
  std::string program;
  for (const std::string& word : files.command(100'000, 100'000, kModel)) program += " " + word;
  Process launcher(on_host_1(2, "ip netns exec $PACELINE_NET-2 " + paceline + "1 -- " + program +
                                    " & " + paceline + "0 -- " + program +
                                    "; code=$?; wait; exit $code"));
  const std::string net = net_of(launcher)["PACELINE_NET"];
  ASSERT_TRUE(reaches(launcher, files, 50)) << launcher.error();
  for (const char* host : {"-2", "-1"})
    for (const pid_t there : on_host(net + host, "--node-rank"))
      if (std::filesystem::read_symlink(fmt::format("/proc/{}/exe", there)).filename() ==
          "paceline")
        ::kill(there, SIGTERM);  // shims, which are forks of it, block the signal
  EXPECT_EQ(exit_code(launcher.wait(Deadline::in(60s))), 143) << launcher.error();
  EXPECT_THAT(launcher.error(), ::testing::Not(HasSubstr("as generation 2")));
  EXPECT_EQ(files.saved_steps().size(), 1U);
}

}  // namespace
}  // namespace paceline::test
