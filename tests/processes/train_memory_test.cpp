// The memory that data parallel training adds to a process. Runs training_memory.
#ifdef PACELINE_WITH_TORCH
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/launched.h"

namespace paceline::test {
namespace {

using nlohmann::json;

std::vector<json> ranks_told_by(Process& run) {
  EXPECT_EQ(exit_code(run.wait(Deadline::in(60s))), 0) << run.error();
  std::vector<json> lines;
  for (const std::string& line : lines_of(run.output()))
    lines.push_back(json::parse(line.substr(line.find('{'))));
  return lines;
}

TEST(TrainMemory, OfARankIsThatOfOneProcessAndOneCopyOfTheGradients) {
  Process alone({.command = {binary("training_memory"), "plain"}});
  const auto plain = ranks_told_by(alone);
  ASSERT_EQ(plain.size(), 1U);
  const double single = plain[0].at("peak_bytes"), gradients = plain[0].at("gradient_bytes");
  for (const char* transport : {"shm", "tcp"}) {
    Process both(paceline_run({"-n", "2", "--transport", transport},
                              {binary("training_memory"), "parallel"}));
    const auto ranks = ranks_told_by(both);
    ASSERT_EQ(ranks.size(), 2U);
    for (const json& rank : ranks) {
      const double peak = rank.at("peak_bytes");
      EXPECT_LE(peak, 1.05 * single + gradients) << transport;
      RecordProperty(std::string(transport) + "_over_single", std::to_string(peak / single));
    }
  }
}

}  // namespace
}  // namespace paceline::test
#endif
