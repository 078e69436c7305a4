#include "paceline/app/cli/bench/server_bench_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/app/cli/shared/arguments.h"
#include "paceline/core/base/result.h"

namespace paceline::cli {
namespace {

using ::testing::HasSubstr;

ServerBenchRequest server_request_of(const std::vector<std::string>& words) {
  ServerBenchOptions options;
  parse(options.app, words);
  return checked(options);
}

std::string server_refusal_of(const std::vector<std::string>& words) {
  try {
    server_request_of(words);
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::misuse);
    return error.what();
  }
  return "nothing was refused";
}

TEST(ServerBenchOptions, SayWhatIsMeasured) {
  const auto request = server_request_of({"--operations", "push,all_reduce", "--sizes", "4..64",
                                          "--dtype", "f64", "--synchrony", "bsp", "ssp:staleness=2",
                                          "--pace", "5", "--clocks", "7", "--slow", "1:5"});
  EXPECT_EQ(request.operations, (std::vector<std::string>{"push", ""}));
  EXPECT_EQ(request.sizes, (std::vector<std::size_t>{4, 16, 64}));
  EXPECT_EQ(request.dtype, Dtype::f64);
  ASSERT_EQ(request.clocks.size(), 2U);
  EXPECT_EQ(request.clocks[1].synchrony, "ssp:staleness=2");
  EXPECT_EQ(request.clocks[1].pace, 0.005);
  EXPECT_EQ(request.clocks[1].clocks, 7);
  EXPECT_EQ(request.clocks[1].slow->rank, 1);
  EXPECT_EQ(request.clocks[1].slow->factor, 5);
  EXPECT_EQ(server_request_of({"--synchrony", "asp", "--slow", "drawn:2"}).clocks[0].slow->rank,
            -1);
}

TEST(ServerBenchOptions, RefuseWhatCannotBeByName) {
  EXPECT_THAT(server_refusal_of({"--operations", "pushpull"}), HasSubstr("push_pull"));
  EXPECT_THAT(server_refusal_of({"--dtype", "f16"}), HasSubstr("--dtype"));
  EXPECT_THAT(server_refusal_of({"--synchrony", "sspp"}), HasSubstr("ssp"));
  EXPECT_THAT(server_refusal_of({"--slow", "0:5"}), HasSubstr("--synchrony bsp asp"));
  EXPECT_THAT(server_refusal_of({"--synchrony", "bsp", "--slow", "5"}), HasSubstr("RANK:FACTOR"));
  EXPECT_THAT(server_refusal_of({"--synchrony", "bsp", "--slow", "0:-1"}), HasSubstr("--slow"));
  EXPECT_THAT(server_refusal_of({"--pace", "0"}), HasSubstr("--pace"));
}

}  // namespace
}  // namespace paceline::cli
