// Jobs that other launchers start: what they must give, and two nodes of Slurm for them.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "tests/support/launched.h"
#include "tests/support/temporary_folder.h"

namespace paceline::test {

// The repository, from build/release/bin.
inline const std::filesystem::path kNetTests =
    std::filesystem::path(binary("paceline")).parent_path() / "../../../tests/net";

inline bool is_there(const std::string& file) {
  return ::access(file.c_str(), X_OK) == 0;
}

#define NEED(file)     \
  if (!is_there(file)) \
  GTEST_SKIP() << "NOT TESTED: " << (file) << " is missing; run scripts/setup --launchers"

// The output of `ranks` ranks of `paceline run`: every launcher must give the same.
inline std::string expected_hash(int ranks) {
  const auto result =
      run(paceline_run({"-n", std::to_string(ranks)}, {binary("collective_worker"), "hash"}));
  EXPECT_EQ(result.exit_code, 0) << result.error;
  return told_by_all(result.output, "hash", ranks);
}

// Slurm runs while a test of it does; a job finds it by SLURM_CONF.
class Slurm : public ::testing::Test {
 protected:
  void SetUp() override { start_nodes(/*seconds_of_credentials=*/120); }
  // A job that is requeued waits for as long as credentials are valid.
  void start_nodes(int seconds_of_credentials) {
    NEED("/usr/sbin/slurmctld");
    ASSERT_EQ(::geteuid(), 0U) << "Slurm's daemons need root here";
    const auto started = run({.command = {kNetTests / "slurm_two_nodes", "start", folder_.path(),
                                          std::to_string(seconds_of_credentials)}},
                             Deadline::in(60s));
    ASSERT_EQ(started.exit_code, 0) << started.error;
  }
  void TearDown() override {
    run({.command = {kNetTests / "slurm_two_nodes", "stop", folder_.path()}});
  }
  Finished srun(std::vector<std::string> words,
                std::map<std::string, std::string> environment = {}) {
    words.insert(words.begin(), "srun");
    environment["SLURM_CONF"] = folder_.path() / "slurm.conf";
    return run({.command = std::move(words), .environment = std::move(environment)},
               Deadline::in(60s));
  }
  const TemporaryFolder folder_;
};

}  // namespace paceline::test
