// `paceline bench calibrate` and `paceline bench choose` as a user runs them: covers
// paceline/app/cli/commands/bench_calibrate.cpp, paceline/app/cli/commands/bench_choose.cpp and
// paceline/app/measure/calibration.h.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>

#include <nlohmann/json.hpp>

#include "paceline/core/topology/profile.h"
#include "tests/support/launched.h"

namespace paceline::test {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using topology::LinkClass;

class CalibrateAndChoose : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string file(const std::string& name) const { return folder_ + "/" + name; }
  static std::string text_of(const std::string& path) {
    std::ifstream in(path);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  static Finished bench(const std::vector<std::string>& words,
                        const std::map<std::string, std::string>& environment = {}) {
    ProcessOptions options{.command = {binary("paceline"), "bench"}, .environment = environment};
    options.command.insert(options.command.end(), words.begin(), words.end());
    return run(options, Deadline::in(60s));
  }

  const std::string folder_ = ::testing::TempDir() + "calibrate_and_choose_test";
};

void expect_sane(const topology::LinkPrices& prices) {
  for (const topology::Line& line : prices.lines) {
    EXPECT_GE(line.alpha, 0);
    EXPECT_LT(line.alpha, 1) << "a message in less than a second";
    EXPECT_GE(line.beta, 0);
    EXPECT_LT(line.beta, 1e-6) << "more than a megabyte a second";
  }
}

TEST_F(CalibrateAndChoose, AProfileOfEachTransportLoadsBackAndIsChosenBy) {
  for (const auto& [transport, link, other] :
       {std::tuple("shm", LinkClass::memory, LinkClass::loopback),
        std::tuple("tcp", LinkClass::loopback, LinkClass::memory)}) {
    const auto done = bench({"calibrate", "--ranks", "2", "--transport", transport, "--blocks", "2",
                             "--operations", "2", "--output", file(transport)},
                            {{"PACELINE_PROFILE", file(transport)}});  // is not there yet
    ASSERT_EQ(done.exit_code, 0) << done.error;
    EXPECT_THAT(done.output, HasSubstr("PACELINE_PROFILE=" + file(transport)));
    const topology::Profile profile =
        topology::parse_profile(text_of(file(transport)), transport).value();
    expect_sane(profile.link(link));
    EXPECT_NEAR(profile.link(other).lines[0].alpha, topology::Profile().link(other).lines[0].alpha,
                1e-12)
        << "what is not there stays as built in";
    EXPECT_LT(profile.gamma, 1e-6);

    const auto chosen = bench({"choose", "--ranks", "2", "--transport", transport, "--sizes",
                               "4,64KiB", "--blocks", "2", "--operations", "2", "--json", "-"},
                              {{"PACELINE_PROFILE", file(transport)}});
    ASSERT_EQ(chosen.exit_code, 0) << chosen.error;
    const json report = json::parse(chosen.output);
    ASSERT_EQ(report.at("cells").size(), 2U);
    for (const json& cell : report.at("cells")) {
      EXPECT_EQ(cell.at("transport"), transport);
      EXPECT_GE(cell.at("candidates").size(), 3U);
      const bool within_a_host = std::string(transport) == "shm";
      EXPECT_EQ(cell.at("chosen"), within_a_host ? "board" : "links");
      EXPECT_EQ(cell.at("model_us").is_null(), !within_a_host) << "links have no price";
      EXPECT_GE(cell.at("regret"), 0);
      double cheapest = 0;
      for (const json& one : cell.at("candidates")) {
        EXPECT_GT(one.at("measured_us"), 0);
        if (one.at("algorithm") == cell.at("chosen")) continue;  // it stands first
        EXPECT_GE(one.at("model_us"), cheapest) << "then the cheapest first";
        cheapest = one.at("model_us");
      }
    }
  }
}

TEST_F(CalibrateAndChoose, WrongUseIsToldOnceAndEndsWith2) {
  const auto expect = [](const Finished& done, const std::string& text) {
    EXPECT_EQ(done.exit_code, 2) << done.error;
    EXPECT_THAT(done.error, HasSubstr(text));
  };
  expect(bench({"calibrate", "--ranks", "1"}), "one rank has no links");
  expect(bench({"calibrate", "--ranks", "2", "--blocks", "0"}), "--blocks");
  expect(bench({"calibrate", "--ranks", "2", "--output", file("missing/profile")}), "profile");
  expect(bench({"choose", "--ranks", "2", "--operation", "barrier"}), "no algorithms");
  expect(bench({"choose", "--ranks", "2", "--sizes", "much"}), "--sizes");
  std::ofstream(file("wrong")) << R"({"paceline_profile": 1, "gamma_ns_per_byte": -1})";
  expect(bench({"choose", "--ranks", "2"}, {{"PACELINE_PROFILE", file("wrong")}}),
         "gamma_ns_per_byte must be a number from 0 to 1000");
  expect(bench({"choose", "--ranks", "2"}, {{"PACELINE_PROFILE", file("missing")}}),
         "paceline bench calibrate --output FILE");
}

}  // namespace
}  // namespace paceline::test
