// Forecasts of whole steps against what steps take then, on networks of many rates and in shared
// memory (tests/net/hosts; rates that two processors can drive).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/support/nightly.h"
#include "tests/support/several_hosts.h"

namespace paceline::test {
namespace {

struct Network {
  int hosts;
  std::string rate;          // empty: two ranks of one host, in shared memory
  std::string options = {};  // of the bench
};

class ScheduleForecasts : public SeveralHosts {
 protected:
  // The forecasts of all models and methods.
  std::vector<double> errors_on(const Network& network) {
    const std::string figures = folder_ / "figures.json";
    const std::string bench =
        fmt::format("{} bench schedule --json {} {}", binary("paceline"), figures, network.options);
    const std::string over_hosts =
        fmt::format(R"({} --hosts "$PACELINE_NET_HOSTS" --ssh "{} ssh")", bench, hosts_script());
    const std::vector<std::string> alone = {"bash", "-c", bench + " --ranks 2"};
    const std::vector<std::string> with_hosts = {
        hosts_script(), "with",       std::to_string(network.hosts),
        "--rate",       network.rate, "--",
        "bash",         "-c",         over_hosts};
    const auto result =
        run({.command = network.rate.empty() ? alone : with_hosts}, Deadline::in(1800s));
    EXPECT_EQ(result.exit_code, 0) << result.error;
    std::vector<double> errors;
    if (result.exit_code != 0) return errors;
    for (const auto& row : nlohmann::json::parse(std::ifstream(figures)))
      errors.push_back(row.at("forecast_error").get<double>());
    RecordProperty(fmt::format("worst on {} hosts {}", network.hosts, network.rate),
                   fmt::format("{:.3f}", std::ranges::max(errors)));
    return errors;
  }
};

TEST_F(ScheduleForecasts, AreWithinEightPercentInTheMeanAndTwentyAtWorst) {
  if (!is_nightly()) GTEST_SKIP() << "half an hour: runs with PACELINE_NIGHTLY=1";
  const std::vector<Network> networks = {
      {.hosts = 4, .rate = "1gbit"}, {.hosts = 4, .rate = "2gbit"},
      {.hosts = 2, .rate = "5gbit"}, {.hosts = 2, .rate = "10gbit"},
      {.hosts = 1, .rate = ""},      {.hosts = 4, .rate = "200mbit", .options = "--divide 8"},
  };
  std::vector<double> errors;
  for (const Network& network : networks) {
    const auto of_network = errors_on(network);
    EXPECT_EQ(of_network.size(), 21U) << "three models, seven methods";
    errors.insert(errors.end(), of_network.begin(), of_network.end());
  }
  double sum = 0;
  for (const double error : errors) sum += error;
  EXPECT_LE(sum / static_cast<double>(errors.size()), 0.08);
  EXPECT_LE(std::ranges::max(errors), 0.20);
}

}  // namespace
}  // namespace paceline::test
