// `paceline bench pipeline` as a user runs it: covers paceline/app/cli/commands/bench_pipeline.cpp.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include <nlohmann/json.hpp>

#include "tests/support/launched.h"
#include "tests/support/temporary_folder.h"

namespace paceline::test {
namespace {

using ::testing::HasSubstr;

Finished bench_pipeline(const std::vector<std::string>& words) {
  ProcessOptions options{.command = {binary("paceline"), "bench", "pipeline"}};
  options.command.insert(options.command.end(), words.begin(), words.end());
  return run(options, Deadline::in(60s));
}

// How much more it takes depends on the machine's other work; that it takes no less does not.
TEST(BenchPipeline, EveryScheduleMovesItsMessagesAndTakesNoLessThanSimulated) {
  for (const std::string transport : {"shm", "tcp"}) {
    for (const std::string schedule :
         {"gpipe", "1f1b", "interleaved:chunks=2", "zero_bubble", "pipedream"}) {
      const auto done = bench_pipeline({"--ranks", "3", "--transport", transport, "--schedule",
                                        schedule, "--micro-batches", "6", "--durations", "2:2:2",
                                        "--steps", "1", "--json", "-"});
      ASSERT_EQ(done.exit_code, 0) << done.error;
      const auto json = nlohmann::json::parse(done.output);
      EXPECT_EQ(json.at("errors"), 0);
      EXPECT_EQ(json.at("transport"), transport);
      EXPECT_EQ(json.at("ranks").size(), 3u);
      const double simulated = json.at("simulated").at("makespan_ms");
      EXPECT_GE(json.at("makespan_ms").get<double>(), simulated - 0.5) << schedule;
    }
  }
}

TEST(BenchPipeline, ItPrintsATableAndDrawsTheStep) {
  const TemporaryFolder folder;
  const auto done = bench_pipeline({"--ranks", "2", "--micro-batches", "3", "--durations", "2:2:2",
                                    "--steps", "1", "--svg", folder.file("step.svg")});
  ASSERT_EQ(done.exit_code, 0) << done.error;
  for (const char* text : {"1f1b, 2 ranks, 3 micro-batches: ", "rank 1 ", "makespan", "simulated"})
    EXPECT_THAT(done.output, HasSubstr(text));
  std::ifstream in(folder.file("step.svg"));
  const std::string svg(std::istreambuf_iterator<char>(in), {});
  EXPECT_THAT(svg, HasSubstr("the backward of micro-batch 2 on stage 1: "));
}

TEST(BenchPipeline, WrongUseEndsWith2) {
  const auto expect = [](std::vector<std::string> words, const std::string& text) {
    words.insert(words.begin(), {"--ranks", "2"});
    const auto done = bench_pipeline(words);
    EXPECT_EQ(done.exit_code, 2) << done.error;
    EXPECT_THAT(done.error, HasSubstr(text));
  };
  expect({"--schedule", "1f2b"}, "did you mean 1f1b");
  expect({"--schedule", "interleaved", "--micro-batches", "3"}, "give 2 or 4");
  expect({"--durations", "fast"}, "--durations");
  expect({"--steps", "0"}, "--steps");
}

}  // namespace
}  // namespace paceline::test
