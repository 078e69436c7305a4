// The claims of tests/support/conformance.h by ranks that are processes: over shared memory and TCP
// under `paceline run`, and carried by MPI under the mpirun of each library that a plugin was built
// for. `scripts/setup --launchers` installs both; what is missing is said and skipped.
//
// Also covers paceline/plugins/mpi/mpi_engine.cpp, types.cpp and mpi.h.
#include "tests/support/conformance.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "tests/support/launched.h"
#include "tests/support/temporary_folder.h"

namespace paceline::test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

struct Carrier {
  std::string name;
  std::string mpi;  // the library; empty: `paceline run`
  std::vector<std::string> launcher;
  std::map<std::string, std::string> environment;
};

std::vector<Carrier> carriers() {
  const auto own = [](std::string name, std::string transport) {
    return Carrier{std::move(name), "", {binary("paceline"), "run", "--transport", transport}, {}};
  };
  return {own("SharedMemory", "shm"),
          own("Tcp", "tcp"),
          {"OpenMpi",
           "openmpi",
           {"mpirun.openmpi", "--oversubscribe"},
           {{"OMPI_ALLOW_RUN_AS_ROOT", "1"}, {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"}}},
          {"Mpich", "mpich", {"mpirun.mpich"}, {}}};
}

// Why it cannot be tried here; empty: it can.
std::string missing(const Carrier& carrier) {
  if (carrier.mpi.empty()) return {};
  const auto plugin = fs::path(binary("paceline")).parent_path().parent_path() / "lib/paceline" /
                      fmt::format("libpaceline_mpi_{}.so", carrier.mpi);
  for (const std::string& file : {plugin.string(), "/usr/bin/" + carrier.launcher[0]}) {
    if (::access(file.c_str(), R_OK) != 0)
      return fmt::format("{} is missing; run scripts/setup --launchers, and build again", file);
  }
  return {};
}

Finished run_by(const Carrier& carrier, int ranks, const std::vector<std::string>& program,
                Deadline deadline = Deadline::in(60s)) {
  const TemporaryFolder temporary;
  ProcessOptions options{.command = carrier.launcher, .environment = carrier.environment};
  // Open MPI leaves files, and when a rank dies its shared memory too.
  options.environment["TMPDIR"] = temporary.path();
  options.environment["OMPI_MCA_btl_vader_backing_directory"] = temporary.path();
  options.environment["PACELINE_TRANSPORT"] = "mpi";
  options.command.insert(options.command.end(), {"-n", std::to_string(ranks)});
  if (carrier.mpi.empty()) {
    options.environment.erase("PACELINE_TRANSPORT");
    options.command.insert(options.command.end(), {"--determinism", "fast", "--"});
  }
  options.command.insert(options.command.end(), program.begin(), program.end());
  return run(options, deadline);
}

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

TEST_P(Conformance, OfFailuresHoldsForProcesses) {
  for (const Claim& claim : conformance()) {
    if (!claim.ends_generation) continue;
    const auto result = run_by(GetParam(), 3, {binary("conformance"), std::string(claim.name)});
    EXPECT_EQ(result.exit_code, 0);
    EXPECT_EQ(times_held(result.output, claim.name), 3)
        << claim.name << result.error << result.output;
  }
}

TEST_P(Conformance, ARankThatDiesEndsTheOthers) {
  const auto result = run_by(GetParam(), 3, {binary("collective_worker"), "1=exit:3", "stream"});
  EXPECT_NE(result.exit_code, 0);
  EXPECT_NE(result.exit_code, -1) << "it had to be killed";
}

void PrintTo(const Carrier& carrier, std::ostream* to) {
  *to << carrier.name;
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
