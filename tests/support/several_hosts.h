// Jobs over several hosts under test: network namespaces with a bridge between them, and an ssh
// that enters them (tests/net/hosts documents rates, delays, pulled cables and nft).
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/launched.h"
#include "tests/support/temporary_folder.h"

namespace paceline::test {

// The path of the script, seen from build/release/bin.
inline std::string hosts_script() {
  return std::filesystem::path(binary("paceline")).parent_path() / "../../../tests/net/hosts";
}

// Processes of a host whose command line has this word.
inline std::vector<pid_t> on_host(const std::string& host, const std::string& word) {
  const Finished all = run({.command = {"ip", "netns", "pids", host}}, Deadline::in(10s));
  std::vector<pid_t> pids;
  for (const std::string& line : lines_of(all.output)) {
    std::ifstream file("/proc/" + line + "/cmdline");
    const std::string command((std::istreambuf_iterator<char>(file)), {});
    if (command.find(word) != std::string::npos) pids.push_back(std::stoi(line));
  }
  return pids;
}

class SeveralHosts : public ::testing::Test {
 protected:
  void SetUp() override {
    static const Finished possible =
        run({.command = {hosts_script(), "with", "1", "--", "true"}}, Deadline::in(20s));
    if (possible.exit_code == 77) GTEST_SKIP() << "NOT TESTED: " << possible.error;
    ASSERT_EQ(possible.exit_code, 0) << possible.error;
  }

  // The launcher runs on host 1 of `hosts`, with 2 ranks on each. `then` is a command that keeps
  // the hosts up when the launcher has ended.
  static ProcessOptions run_over(int hosts, std::vector<std::string> options,
                                 const std::vector<std::string>& command,
                                 const std::string& then = {}) {
    options.emplace_back("--");
    options.insert(options.end(), command.begin(), command.end());
    const std::string launcher = binary("paceline") +
                                 R"( run --hosts "${PACELINE_NET_HOSTS//,/:2,}:2" --ssh ")" +
                                 hosts_script() + R"( ssh" "$@")";
    return on_host_1(hosts, then.empty() ? "exec " + launcher : launcher + "; " + then, options);
  }
  static ProcessOptions on_host_1(int hosts, const std::string& script,
                                  const std::vector<std::string>& arguments = {}) {
    ProcessOptions result{.command = {hosts_script(), "with", std::to_string(hosts), "--", "bash",
                                      "-c", "echo net $PACELINE_NET $PACELINE_NET_HOSTS; " + script,
                                      "_"}};
    result.command.insert(result.command.end(), arguments.begin(), arguments.end());
    return result;
  }
  // The content of the first line, once it has come.
  static std::map<std::string, std::string> net_of(Process& process) {
    process.wait_for_output("\n", Deadline::in(10s));
    std::istringstream words(process.output());
    std::string net, prefix, addresses;
    words >> net >> prefix >> addresses;
    return {{"PACELINE_NET", prefix}, {"last", addresses.substr(addresses.rfind(',') + 1)}};
  }
  const TemporaryFolder temporary_;
  const std::filesystem::path& folder_ = temporary_.path();
};

}  // namespace paceline::test
