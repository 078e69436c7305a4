// Wrong environments and limits that are too low: each ends soon, with an error that names the
// cause and the remedy; and the same bits over both transports.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/support/launched.h"
#include "tests/support/nightly.h"

namespace paceline::test {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::vector<std::string> worker(const std::vector<std::string>& behaviours) {
  std::vector<std::string> command = {binary("collective_worker")};
  command.insert(command.end(), behaviours.begin(), behaviours.end());
  return command;
}

// Each worker is started by bash, after `before` was done on rank `rank` (-1: on all).
ProcessOptions wrapped(int ranks, int rank, const std::string& before,
                       const std::vector<std::string>& behaviours) {
  std::string script =
      rank < 0 ? before + "; "
               : "if [ $PACELINE_RANK = " + std::to_string(rank) + " ]; then " + before + "; fi; ";
  script += "exec";
  for (const auto& word : worker(behaviours)) script += " '" + word + "'";
  return paceline_run({"-n", std::to_string(ranks)}, {"bash", "-c", script});
}

// The same of a user without privileges, as ranks are: root has no limit of descriptors on their
// way to other processes, and reads the memory of every process.
ProcessOptions of_an_ordinary_user(ProcessOptions options) {
  const std::vector<std::string> user = {"setpriv", "--reuid", "65534",
                                         "--regid", "65534",   "--clear-groups"};
  if (::geteuid() == 0) options.command.insert(options.command.begin(), user.begin(), user.end());
  return options;
}

void expect_right_sums(const ProcessOptions& options, int ranks) {
  const auto result = run(options);
  EXPECT_EQ(result.exit_code, 0) << result.output << result.error;
  int right = 0;
  for (const std::string& line : lines_of(result.output))
    right += line.ends_with("sums right") ? 1 : 0;
  EXPECT_EQ(right, ranks) << result.output;
}

TEST(CollectiveEnvironment, AWorldSizeOfItsOwnIsRefused) {
  for (const std::string size : {"2", "4"}) {
    const auto result = run(wrapped(3, 1, "export PACELINE_WORLD_SIZE=" + size, {"calls:3"}));
    EXPECT_NE(result.exit_code, 0);
    EXPECT_LT(result.took, 4s);
    EXPECT_THAT(result.output, HasSubstr("rank 1 takes the world to have " + size +
                                         " ranks, the launcher started 3"))
        << result.error;
    EXPECT_THAT(result.error, HasSubstr("rank 1 takes the world to have " + size + " ranks"))
        << result.output;
  }
}

TEST(CollectiveEnvironment, AnotherTransportOnOneRank) {
  // auto and tcp have one in common; shm and tcp have not.
  const auto common = run(wrapped(3, 1, "export PACELINE_TRANSPORT=tcp", {"calls:3"}));
  EXPECT_EQ(common.exit_code, 0) << common.output << common.error;
  const auto none = run(wrapped(
      3, -1,
      "export PACELINE_TRANSPORT=shm; [ $PACELINE_RANK = 1 ] && export PACELINE_TRANSPORT=tcp",
      {"calls:3"}));
  EXPECT_EQ(none.exit_code, 1) << none.output << none.error;
  EXPECT_LT(none.took, 4s);
  EXPECT_THAT(none.output, HasSubstr("PACELINE_TRANSPORT must be the same on all ranks"))
      << none.error;
  const auto senseless = run(wrapped(2, 1, "export PACELINE_TRANSPORT=pigeons", {"calls:3"}));
  EXPECT_EQ(senseless.exit_code, 1);
  EXPECT_LT(senseless.took, 4s);
  EXPECT_THAT(senseless.output, HasSubstr("auto, shm, tcp, ucx, mpi or nccl"));
}

TEST(CollectiveEnvironment, TooSmallAFileSizeLimitIsNamedAndTcpHelps) {
  const auto refused = run(wrapped(2, -1, "ulimit -f 16", {"calls:3"}));
  EXPECT_EQ(refused.exit_code, 1) << refused.output << refused.error;
  EXPECT_LT(refused.took, 4s);
  EXPECT_THAT(refused.output, HasSubstr("RLIMIT_FSIZE")) << refused.error;
  EXPECT_THAT(refused.output, HasSubstr("ulimit -f"));
  EXPECT_THAT(refused.output, HasSubstr("PACELINE_TRANSPORT=tcp"));
  const auto over_tcp =
      run(wrapped(2, -1, "ulimit -f 16; export PACELINE_TRANSPORT=tcp", {"calls:3"}));
  EXPECT_EQ(over_tcp.exit_code, 0) << over_tcp.output << over_tcp.error;
}

TEST(CollectiveEnvironment, TooSmallAFileSizeLimitForAnAllocationIsNamed) {
  const auto refused = run(wrapped(2, 1, "ulimit -f 20000", {"allocate:64"}));
  EXPECT_EQ(refused.exit_code, 1) << refused.output << refused.error;
  EXPECT_LT(refused.took, 4s);
  EXPECT_THAT(refused.output, HasSubstr("RLIMIT_FSIZE")) << refused.error;
}

TEST(CollectiveEnvironment, TooFewDescriptorsAreNamed) {
  for (const std::string limit : {"8", "10", "12", "14"}) {
    const auto refused = run(wrapped(3, 1, "ulimit -n " + limit, {"calls:3"}));
    EXPECT_EQ(refused.exit_code, 1) << refused.output << refused.error;
    EXPECT_LT(refused.took, 4s);
    EXPECT_THAT(refused.output, HasSubstr("ulimit -n")) << refused.error;
  }
}

TEST(CollectiveEnvironment, TooFewDescriptorsForAllRanksAreRefusedBeforeTheFirstStep) {
  const auto refused = run(wrapped(8, 1, "ulimit -n 20", {"sums:64"}));
  EXPECT_EQ(refused.exit_code, 1) << refused.output << refused.error;
  EXPECT_THAT(refused.output, HasSubstr("rank 1 of 8 needs ")) << refused.error;
  EXPECT_THAT(refused.output, HasSubstr("its limit is 20 (RLIMIT_NOFILE)"));
  EXPECT_THAT(refused.output, Not(HasSubstr("sums")));
  auto launcher = paceline_run({"-n", "8"}, worker({"sums:64"}));
  launcher.command = {"bash", "-c", "ulimit -n 30; exec \"$0\" run -n 8 -- true",
                      binary("paceline")};
  const auto told = run(launcher);
  EXPECT_NE(told.exit_code, 0);
  EXPECT_THAT(told.error, HasSubstr("the launcher of 8 processes needs ")) << told.output;
  EXPECT_THAT(told.error, HasSubstr("its limit is 30 (RLIMIT_NOFILE)"));
}

TEST(CollectiveEnvironment, ASoftLimitOfDescriptorsIsRaised) {
  expect_right_sums(wrapped(8, -1, "ulimit -Sn 20", {"sums:64"}), 8);
}

// More descriptors are on their way at once than the system passes of a user (ETOOMANYREFS).
TEST(CollectiveEnvironment, RanksOfAnOrdinaryUserShareMemoryWithFewDescriptors) {
  expect_right_sums(of_an_ordinary_user(wrapped(16, -1, "ulimit -n 48", {"sums:64"})), 16);
}

// The default limit of many systems, and one that is too low for so many ranks.
TEST(CollectiveEnvironment, At64RanksAThousandDescriptorsAreEnoughAnd64AreRefused) {
  if (!is_nightly()) return;
  expect_right_sums(of_an_ordinary_user(wrapped(64, -1, "ulimit -n 1024", {"sums:64"})), 64);
  const auto refused = run(of_an_ordinary_user(wrapped(64, -1, "ulimit -n 64", {"sums:64"})));
  EXPECT_EQ(refused.exit_code, 1) << refused.output << refused.error;
  EXPECT_THAT(refused.output, HasSubstr(" of 64 needs ")) << refused.error;
  EXPECT_THAT(refused.output, HasSubstr("its limit is 64 (RLIMIT_NOFILE)"));
  EXPECT_THAT(refused.output, Not(HasSubstr("sums right")));
}

TEST(CollectiveEnvironment, AProgramThatHasUsedUpItsDescriptorsHasRightSums) {
  expect_right_sums(wrapped(4, -1, "ulimit -n 100", {"1=exhausted:64", "sums:64"}), 4);
  expect_right_sums(wrapped(4, -1, "ulimit -n 100", {"exhausted:64"}), 4);
}

TEST(CollectiveEnvironment, MemoryThatARankClosesToOthersIsSummedUpAllTheSame) {
  expect_right_sums(of_an_ordinary_user(wrapped(2, -1, "true", {"1=closed:8192", "sums:8192"})), 2);
}

TEST(CollectiveEnvironment, TooLittleAddressSpaceIsNamed) {
  const auto refused = run(wrapped(2, 1, "ulimit -v 600000", {"allocate:1024"}));
  EXPECT_EQ(refused.exit_code, 1) << refused.output << refused.error;
  EXPECT_LT(refused.took, 4s);
  EXPECT_THAT(refused.output, AnyOf(HasSubstr("RLIMIT_AS"), HasSubstr("ulimit -v"),
                                    HasSubstr("Cannot allocate memory")))
      << refused.error;
}

TEST(CollectiveEnvironment, TheBitsAreTheSameOverEveryTransport) {
  for (const int ranks : {2, 3, 4}) {
    std::string first;
    auto choices = transports();
    choices.emplace_back("auto");
    for (const std::string& transport : choices) {
      auto options = paceline_run({"-n", std::to_string(ranks)}, worker({"hash"}));
      options.environment["PACELINE_TRANSPORT"] = transport;
      const auto result = run(options);
      ASSERT_EQ(result.exit_code, 0) << result.output << result.error;
      const auto lines = lines_of(result.output);
      ASSERT_EQ(static_cast<int>(lines.size()), ranks) << result.output;
      for (const auto& line : lines) {
        const std::string hash = line.substr(line.find("hash "));
        if (first.empty()) first = hash;
        EXPECT_EQ(hash, first) << transport << ", " << ranks << " ranks: " << line;
      }
    }
  }
}

}  // namespace
}  // namespace paceline::test
