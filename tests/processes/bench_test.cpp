// `paceline bench` starts its own ranks, and takes part where a launcher has started them: covers
// paceline/app/cli/commands/bench_collective.cpp and paceline/app/cli/bench/bench_ranks.h.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include <nlohmann/json.hpp>

#include "tests/support/launched.h"

namespace paceline::test {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class Bench : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string file(const std::string& name) const { return folder_ + "/" + name; }
  static std::string text_of(const std::string& path) {
    std::ifstream in(path);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  static Finished bench(const std::vector<std::string>& words) {
    ProcessOptions options{.command = {binary("paceline"), "bench", "collective"}};
    options.command.insert(options.command.end(), words.begin(), words.end());
    return run(options, Deadline::in(60s));
  }

  const std::string folder_ = ::testing::TempDir() + "bench_test";
};

TEST_F(Bench, MeasuresEveryAlgorithmBesideTheYardstickAndWritesItsFiles) {
  const auto done =
      bench({"--ranks", "2", "--sizes", "4..64KiB", "--algorithms", "all", "--yardstick",
             "--blocks", "2", "--operations", "3", "--json", file("json"), "--html", file("html")});
  ASSERT_EQ(done.exit_code, 0) << done.error;
  EXPECT_THAT(done.output, HasSubstr("all results were right"));
  const json rows = json::parse(text_of(file("json")));
  std::map<std::string, std::vector<std::size_t>> sizes;
  for (const json& row : rows) {
    sizes[row.at("algorithm")].push_back(row.at("bytes"));
    EXPECT_EQ(row.at("operation"), "all_reduce");
    EXPECT_EQ(row.at("transport"), "shm");
    EXPECT_EQ(row.at("dtype"), "f32");
    EXPECT_EQ(row.at("ranks"), 2);
    EXPECT_EQ(row.at("errors"), 0);
    EXPECT_GT(row.at("yardstick_ratio_p50"), 0);
  }
  for (const char* name : {"binomial", "direct", "recursive_doubling"}) {
    EXPECT_EQ(sizes[name], (std::vector<std::size_t>{4, 16, 64, 256, 1024, 4096, 16384, 65536}));
  }
  EXPECT_EQ(sizes.count("ring"), 0U) << "it is not reproducible";
  EXPECT_THAT(text_of(file("html")), HasSubstr("</html>"));
}

TEST_F(Bench, MeasuresEveryOperationOverTcp) {
  for (const char* operation : {"all_reduce", "reduce_scatter", "all_gather", "broadcast", "reduce",
                                "gather", "scatter", "all_to_all", "barrier"}) {
    const auto done = bench({"--operation", operation, "--ranks", "3", "--sizes", "4,5000",
                             "--dtype", "bf16", "--transport", "tcp", "--buffers", "ordinary",
                             "--blocks", "1", "--operations", "2", "--json", "-"});
    ASSERT_EQ(done.exit_code, 0) << done.error;
    for (const json& row : json::parse(done.output)) {
      EXPECT_EQ(row.at("operation"), operation);
      EXPECT_EQ(row.at("transport"), "tcp");
      EXPECT_EQ(row.at("errors"), 0);
    }
  }
}

// Sizes whose hidden buffers are staged and read, among more ranks than cores.
TEST_F(Bench, ReducesBuffersThatNoOtherProcessMaps) {
  for (const char* ranks : {"2", "3"}) {
    const auto done =
        bench({"--ranks", ranks, "--sizes", "20000,1MiB,5000000", "--transport", "shm", "--buffers",
               "ordinary", "--blocks", "1", "--operations", "2", "--json", "-"});
    ASSERT_EQ(done.exit_code, 0) << done.error;
    for (const json& row : json::parse(done.output)) EXPECT_EQ(row.at("errors"), 0);
  }
}

TEST_F(Bench, TakesPartAsARankWhereALauncherHasStartedIt) {
  const auto done = run(paceline_run({"-n", "3", "--no-prefix"},
                                     {binary("paceline"), "bench", "collective", "--sizes", "4",
                                      "--blocks", "1", "--back-to-back", "--csv", "-"}),
                        Deadline::in(60s));
  EXPECT_EQ(done.exit_code, 0) << done.error;
  EXPECT_THAT(done.output, ::testing::StartsWith("paceline_shm,3,4,"));
  EXPECT_THAT(done.output, ::testing::EndsWith(",ok\n"));
}

TEST_F(Bench, WrongUseIsTwoAndIsToldOnce) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> wrong = {
      {{}, "--ranks"},
      {{"--ranks", "2", "--sizes", "4..2"}, "--sizes"},
      {{"--ranks", "2", "--algorithms", "ring"}, "--determinism fast"},
      {{"--ranks", "1", "--yardstick"}, "yardstick"},
      {{"--ranks", "2", "--json", "/nowhere/json"}, "/nowhere/json"},
      {{"--ranks", "2", "--ssh", "x"}, "--hosts"},
  };
  for (const auto& [words, remedy] : wrong) {
    const auto done = bench(words);
    EXPECT_EQ(done.exit_code, 2) << remedy;
    EXPECT_THAT(done.output, IsEmpty()) << remedy;
    EXPECT_THAT(done.error, HasSubstr(remedy));
    const auto told = done.error.find("paceline bench collective: ");
    EXPECT_NE(told, std::string::npos) << remedy;
    EXPECT_EQ(done.error.find("paceline bench collective: ", told + 1), std::string::npos)
        << done.error;
  }
}

}  // namespace
}  // namespace paceline::test
