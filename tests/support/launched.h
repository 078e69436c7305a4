// `paceline run` under test.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/process.h"

namespace paceline::test {

using namespace std::chrono_literals;

// The path at which a plugin such as "ucx" or "mpi_openmpi" lies if it was built.
inline std::string plugin_file(const std::string& plugin) {
  const auto build = std::filesystem::path(binary("paceline")).parent_path().parent_path();
  return build / "lib" / "paceline" / ("libpaceline_" + plugin + ".so");
}

// The transports of `paceline run` that can be tried here; UCX if its plugin was built.
inline std::vector<std::string> transports() {
  std::vector<std::string> all = {"shm", "tcp"};
  if (std::filesystem::exists(plugin_file("ucx"))) all.emplace_back("ucx");
  return all;
}

// paceline run <options> -- <command>
inline ProcessOptions paceline_run(const std::vector<std::string>& options,
                                   const std::vector<std::string>& command) {
  ProcessOptions result{.command = {binary("paceline"), "run"}};
  result.command.insert(result.command.end(), options.begin(), options.end());
  result.command.emplace_back("--");
  result.command.insert(result.command.end(), command.begin(), command.end());
  return result;
}

// `paceline run -n <ranks> <options> -- launch_probe <behaviours>`
inline ProcessOptions run_probe(int ranks, const std::vector<std::string>& behaviours,
                                const std::vector<std::string>& options = {}) {
  std::vector<std::string> all = {"-n", std::to_string(ranks)};
  all.insert(all.end(), options.begin(), options.end());
  std::vector<std::string> command = {binary("launch_probe")};
  command.insert(command.end(), behaviours.begin(), behaviours.end());
  return paceline_run(all, command);
}

// The number after "[<rank>] <word> " in the launcher's output, once that line is complete.
inline std::optional<int> told(const std::string& output, int rank, const std::string& word) {
  const std::string begin = "[" + std::to_string(rank) + "] " + word + " ";
  for (const auto& line : lines_of(output)) {
    if (line.starts_with(begin)) return std::atoi(line.c_str() + begin.size());
  }
  return std::nullopt;
}

// The text after `key` and a space, which all `ranks` ranks wrote. If a rank wrote none or another
// one, the test fails here, so that two outputs without any such line are never equal.
inline std::string told_by_all(const std::string& output, const std::string& key, int ranks) {
  std::vector<std::string> words;
  for (const std::string& line : lines_of(output)) {
    const auto at = line.find(key + " ");
    if (at != std::string::npos) words.push_back(line.substr(at + key.size() + 1));
  }
  EXPECT_EQ(words.size(), static_cast<std::size_t>(ranks)) << "lines with '" << key << "' in\n"
                                                           << output;
  for (const std::string& word : words) EXPECT_EQ(word, words.front()) << output;
  EXPECT_FALSE(words.empty() || words.front().empty()) << output;
  return words.empty() ? "nothing" : words.front();
}

// Process ids of all ranks, when each has written "ready"; empty if one did not in time.
inline std::vector<pid_t> ready(Process& launcher, int ranks,
                                Deadline deadline = Deadline::in(10s)) {
  std::vector<pid_t> pids;
  for (int rank = 0; rank < ranks; ++rank) {
    if (!launcher.wait_for_output("[" + std::to_string(rank) + "] ready ", deadline)) return {};
    pids.push_back(*told(launcher.output(), rank, "ready"));
  }
  return pids;
}

// The shim is the worker's parent, or (behind a wrapper) an ancestor: it is named in
// PACELINE_SECRET_FILE.
inline pid_t shim_of(pid_t worker) {
  return std::atoi(
      variable_of(worker, "PACELINE_SECRET_FILE").substr(std::string("/proc/").size()).c_str());
}

// The exit code as a shell shows it; -1 if the process did not end in time.
inline int exit_code(const std::optional<int>& status) {
  if (!status) return -1;
  return WIFSIGNALED(*status) ? 128 + WTERMSIG(*status) : WEXITSTATUS(*status);
}

}  // namespace paceline::test
