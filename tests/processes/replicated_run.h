// Runs of three workers on servers that keep each range of a table several times, which are killed.
#pragma once

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "paceline/core/base/seed.h"
#include "tests/support/launched.h"
#include "tests/support/nightly.h"
#include "tests/support/training_run.h"

namespace paceline::test {

inline constexpr int kTableWorkers = 3;

inline std::vector<std::string> with_servers(int servers, int replicas,
                                             const std::vector<std::string>& more = {}) {
  std::vector<std::string> all = {"-n",         std::to_string(kTableWorkers),
                                  "--servers",  std::to_string(servers),
                                  "--replicas", std::to_string(replicas)};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

class ReplicatedRun {
 public:
  ReplicatedRun(const std::string& behaviour, const std::vector<std::string>& options, int servers,
                const std::string& program = "table_worker")
      : launcher(paceline_run(options, {binary(program), behaviour})),
        pids(ready(launcher, kTableWorkers)),
        newest_(servers - 1) {
    EXPECT_EQ(pids.size(), static_cast<std::size_t>(kTableWorkers)) << launcher.error();
    if (!pids.empty()) job = variable_of(pids[0], "PACELINE_JOB");
  }

  // Kills a server that is alive, and waits until the one in its place is ready. The training may end
  // before, on a slow machine.
  void kill_and_wait(SeededNumbers& numbers) {
    const auto all = servers();
    if (all.empty()) return;
    kill_and_wait(std::next(all.begin(), static_cast<long>(numbers.below(all.size())))->first);
  }
  void kill_and_wait(int server) {
    const auto all = servers();
    if (!all.contains(server)) return;
    ::kill(all.at(server), SIGKILL);
    const auto begin = Clock::now();
    const std::string line = fmt::format("server {} is ready\n", ++newest_);
    if (!launcher.wait_for_error(line, Deadline::in(std::chrono::seconds(10)))) {
      EXPECT_THAT(servers(), ::testing::IsEmpty()) << launcher.output() << launcher.error();
      return;
    }
    slowest_ = std::max(slowest_, Clock::now() - begin);
    ++kills_;
  }
  int kills() const { return kills_; }  // after which as many were ready again
  // The processes of servers, by their numbers.
  std::map<int, pid_t> servers() const {
    std::map<int, pid_t> all;
    for (const pid_t pid : processes_of_job(job))
      if (const std::string index = variable_of(pid, "PACELINE_SERVER_INDEX"); !index.empty())
        all[std::stoi(index)] = pid;
    return all;
  }
  int end() {
    return exit_code(launcher.wait(Deadline::in(std::chrono::seconds(is_nightly() ? 300 : 60))));
  }
  std::string left() const { return left_overs(job, pids, Deadline::in(std::chrono::seconds(0))); }
  Clock::duration slowest() const { return slowest_; }  // until as many were ready again

  Process launcher;
  const std::vector<pid_t> pids;
  std::string job;

 private:
  int newest_, kills_ = 0;
  Clock::duration slowest_ = {};
};

// The longest time between two steps that any worker tells, in milliseconds.
inline int longest_pause(const std::string& output) {
  int longest = 0;
  for (const std::string& line : lines_of(output))
    if (const auto at = line.find("longest "); at != std::string::npos)
      longest = std::max(longest, std::stoi(line.substr(at + 8)));
  return longest;
}

}  // namespace paceline::test
