// The programs of the guides for users of PyTorch's DDP, Horovod and TensorFlow. Runs coming_from.
#ifdef PACELINE_WITH_TORCH
#include <gtest/gtest.h>

#include <sstream>

#include <nlohmann/json.hpp>

#include "tests/support/launched.h"

namespace paceline::test {
namespace {

std::vector<nlohmann::json> told_by(Process& run) {
  EXPECT_EQ(exit_code(run.wait(Deadline::in(60s))), 0) << run.error();
  std::vector<nlohmann::json> told;
  std::istringstream lines(run.output());
  for (std::string line; std::getline(lines, line);)
    told.push_back(nlohmann::json::parse(line.substr(line.find('{'))));
  return told;
}

std::vector<nlohmann::json> told_by_two(const std::string& form) {
  Process run(paceline_run({"-n", "2"}, {binary("coming_from"), form}));
  return told_by(run);
}

TEST(ComingFrom, TheThreeFormsTrainToTheSameBits) {
  const auto ddp = told_by_two("ddp"), horovod = told_by_two("horovod");
  Process alone({.command = {binary("coming_from"), "tensorflow"}});
  const auto mirrored = told_by(alone);
  ASSERT_EQ(ddp.size(), 2U);
  ASSERT_EQ(horovod.size(), 2U);
  ASSERT_EQ(mirrored.size(), 1U);
  for (const auto& told : {ddp[1], horovod[0], horovod[1], mirrored[0]})
    EXPECT_EQ(told["parameters_sha256"], ddp[0]["parameters_sha256"]);
  EXPECT_LT(mirrored[0]["loss"].get<double>(), 1.7) << "it has not learned: chance is 2.3";
}

}  // namespace
}  // namespace paceline::test
#endif
