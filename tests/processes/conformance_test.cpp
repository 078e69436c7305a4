// The claims of tests/support/conformance.h on ranks that are processes: over shared memory, TCP
// and UCX under `paceline run`, and carried by MPI under the mpirun of each library that a plugin
// was built for. `scripts/setup --launchers` installs all of them; a missing one is named and
// skipped.
//
// Also covers paceline/plugins/mpi/mpi_engine.cpp, types.cpp and mpi.h, and paceline/plugins/ucx.
#include "tests/support/conformance.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "tests/support/carriers.h"
#include "tests/support/launched.h"
#include "tests/support/nightly.h"
#include "tests/support/temporary_folder.h"

namespace paceline::test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

std::ptrdiff_t times_held(const std::string& output, std::string_view claim) {
  return std::ranges::count_if(lines_of(output), [&](const std::string& line) {
    return line.ends_with(fmt::format("held {}", claim));
  });
}

class Conformance : public ::testing::TestWithParam<Carrier> {
 protected:
  void SetUp() override {
    if (const std::string why = missing(GetParam()); !why.empty())
      GTEST_SKIP() << "NOT TESTED: " << why;
  }
};

TEST_P(Conformance, HoldsForProcesses) {
  const auto result = run_by(GetParam(), 4, {binary("conformance")});
  EXPECT_EQ(result.exit_code, 0) << result.error << result.output;
  EXPECT_THAT(result.output, Not(HasSubstr("broken ")));
  for (const Claim& claim : conformance()) {
    if (claim.ends_generation) continue;
    EXPECT_EQ(times_held(result.output, claim.name), 4) << claim.name << result.output;
  }
}

// Often at night: libraries below have their races when ranks go.
TEST_P(Conformance, OfFailuresHoldsForProcesses) {
  const int repeats = is_nightly() ? 50 : 1;
  for (const Claim& claim : conformance()) {
    if (!claim.ends_generation) continue;
    for (int i = 0; i < repeats; ++i) {
      const auto result = run_by(GetParam(), 3, {binary("conformance"), std::string(claim.name)});
      EXPECT_EQ(result.exit_code, 0);
      EXPECT_EQ(times_held(result.output, claim.name), 3)
          << claim.name << result.error << result.output;
    }
  }
}

TEST_P(Conformance, ARankThatDiesEndsTheOthers) {
  const auto result = run_by(GetParam(), 3, {binary("collective_worker"), "1=exit:3", "stream"});
  EXPECT_NE(result.exit_code, 0);
  EXPECT_NE(result.exit_code, -1) << "it had to be killed";
}

INSTANTIATE_TEST_SUITE_P(Of, Conformance, ::testing::ValuesIn(carriers()),
                         [](const auto& one) { return one.param.name; });

// Programs of MPI, with the door of the plugin.
TEST(MpiDoor, GivesACommunicatorOfTheRanksOfAnyMpiComm) {
  int tried = 0;
  for (const Carrier& carrier : carriers()) {
    const std::string program = binary("mpi_program_" + carrier.mpi);
    if (carrier.mpi.empty() || !missing(carrier).empty() || !fs::exists(program)) continue;
    SCOPED_TRACE(carrier.name);
    const auto result = run_by(carrier, 4, {program});
    EXPECT_EQ(result.exit_code, 0) << result.error << result.output;
    EXPECT_EQ(times_held(result.output, "TheDoorsClaims"), 4) << result.output;
    ++tried;
  }
  if (tried == 0) GTEST_SKIP() << "NOT TESTED: no MPI; run scripts/setup --launchers";
}

// Also covers core's work around paceline/plugins/nccl; tests/plugins/nccl tests the engine itself.
TEST(NcclEngine, WithoutADeviceSaysSoAndWhatToDo) {
  if (::access("/dev/nvidiactl", F_OK) == 0) GTEST_SKIP() << "NOT TESTED: a CUDA device is here";
  const auto ours = run(paceline_run({"-n", "2", "--transport", "nccl"}, {"true"}));
  EXPECT_EQ(ours.exit_code, 2);
  const auto by_environment = run({.command = {binary("collective_worker"), "hash"},
                                   .environment = {{"PACELINE_TRANSPORT", "nccl"}}});
  EXPECT_EQ(by_environment.exit_code, 1);
  for (const std::string& text : {ours.error, by_environment.output}) {
    const bool built = text.find("libpaceline_nccl.so cannot be loaded") == std::string::npos;
    EXPECT_THAT(text, HasSubstr(built ? "there is no CUDA device here" : "scripts/setup"));
    EXPECT_THAT(text, HasSubstr(built ? "take transport auto, shm or tcp" : "build again"));
  }
}

// A program finds plugins beside itself.
TEST(UcxFabric, WithoutThePluginSaysWhatToDo) {
  const TemporaryFolder elsewhere;
  const std::string worker = elsewhere.file("collective_worker");
  fs::copy(binary("collective_worker"), worker);
  const auto result = run(paceline_run({"-n", "2", "--transport", "ucx"}, {worker, "hash"}));
  EXPECT_EQ(result.exit_code, 1) << result.error;
  EXPECT_THAT(result.output, HasSubstr("failed misuse: the plugin libpaceline_ucx.so"));
  EXPECT_THAT(result.output, HasSubstr("`scripts/setup`, then build again"));
}

TEST(MpiEngine, WithoutMpirunSaysWhatToDo) {
  const auto alone = run({.command = {binary("collective_worker"), "hash"},
                          .environment = {{"PACELINE_TRANSPORT", "mpi"}}});
  EXPECT_EQ(alone.exit_code, 1);
  EXPECT_THAT(alone.output, HasSubstr("failed misuse: PACELINE_TRANSPORT=mpi needs a launcher"));
  EXPECT_THAT(alone.output, HasSubstr("mpirun -n 4 PROGRAM"));
  const auto ours = run(paceline_run({"-n", "2", "--transport", "mpi"}, {"true"}));
  EXPECT_EQ(ours.exit_code, 2);
  EXPECT_THAT(ours.error, HasSubstr("mpirun"));
}

}  // namespace
}  // namespace paceline::test
