#include "paceline/app/cli/bench/collective_options.h"

#include <gtest/gtest.h>

#include "paceline/app/cli/shared/arguments.h"
#include "paceline/core/base/result.h"

namespace paceline::cli {
namespace {

CollectiveRequest request_of(const std::vector<std::string>& words) {
  CollectiveOptions options;
  parse(options.app, words);
  return checked(options);
}

TEST(CollectiveOptions, SayWhatIsMeasured) {
  const auto request =
      request_of({"--operation", "all_gather", "--dtype", "bf16", "--sizes", "4..64",
                  "--algorithms", "ring,automatic", "--buffers", "ordinary", "--blocks", "3"});
  EXPECT_EQ(request.operation, Operation::all_gather);
  EXPECT_EQ(request.dtype, Dtype::bf16);
  EXPECT_EQ(request.sizes, (std::vector<std::size_t>{4, 16, 64}));
  EXPECT_EQ(request.algorithms, (std::vector<std::string>{"ring", "automatic"}));
  EXPECT_TRUE(request.compare.ordinary_buffers);
  EXPECT_EQ(request.compare.blocks, 3);
  EXPECT_EQ(request.compare.operations, 0);
}

TEST(CollectiveOptions, KnowEveryOperationThatIsNoSendOrRecv) {
  for (const char* name : {"all_reduce", "reduce_scatter", "all_gather", "broadcast", "reduce",
                           "gather", "scatter", "all_to_all", "barrier"})
    EXPECT_EQ(name_of(request_of({"--operation", name}).operation), name);
  for (const char* name : {"send", "recv", "unknown", "", "ALL_REDUCE"})
    EXPECT_THROW(request_of({"--operation", name}), Error) << name;
}

TEST(CollectiveOptions, KnowEveryDtype) {
  for (const char* name : {"f64", "f32", "f16", "bf16", "i64", "i32", "i16", "i8", "u8", "bool"})
    EXPECT_EQ(name_of(request_of({"--dtype", name}).dtype), name);
  EXPECT_THROW(request_of({"--dtype", "f8"}), Error);
}

TEST(CollectiveOptions, RefuseWhatCannotBe) {
  const std::vector<std::string> wrong[] = {
      {"--sizes", "big"},
      {"--algorithms", "rign"},
      {"--algorithms", ""},
      {"--blocks", "0"},
      {"--operations", "-1"},
      {"--buffers", "gpu"},
      {"--yardstick", "--dtype", "f64"},
      {"--yardstick", "--operation", "broadcast"},
  };
  for (const auto& words : wrong) EXPECT_THROW(request_of(words), Error) << words.back();
}

TEST(CollectiveOptions, ABarrierHasOneSize) {
  EXPECT_EQ(request_of({"--operation", "barrier"}).sizes, std::vector<std::size_t>{0});
}

}  // namespace
}  // namespace paceline::cli
