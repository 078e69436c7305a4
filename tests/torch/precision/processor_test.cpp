#include "paceline/torch/precision/processor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>

namespace paceline::precision {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

#if defined(__x86_64__)
TEST(ProcessorProducts, AreThoseThatTheKernelTells) {
  std::ifstream file("/proc/cpuinfo");
  const std::string told{std::istreambuf_iterator<char>(file), {}};
  const auto has = [&](const char* flag) { return told.find(flag) != std::string::npos; };
  EXPECT_EQ(processor_multiplies(at::kBFloat16), has(" avx512_bf16") || has(" amx_bf16"));
  EXPECT_EQ(processor_multiplies(at::kHalf), has(" avx512_fp16") || has(" amx_fp16"));
  EXPECT_TRUE(processor_multiplies(at::kFloat));
}
#endif

TEST(ProcessorProducts, ThatAreMissingAreToldWithTheTypeAndTheRemedy) {
  const auto told = [](const char* text, bool multiplies) {
    return slowness_of(parse_precision(text).value(), multiplies);
  };
  EXPECT_THAT(told("o1", false), AllOf(HasSubstr("\"o1\""), HasSubstr("avx512_bf16"),
                                       HasSubstr("take precision \"none\"")));
  EXPECT_THAT(told("o2:dtype=fp16", false), AllOf(HasSubstr("\"o2\""), HasSubstr("avx512_fp16")));
  for (const char* text : {"o1", "o2", "o2:dtype=fp16"}) EXPECT_EQ(told(text, true), "");
  EXPECT_EQ(told("none", false), "");
}

}  // namespace
}  // namespace paceline::precision
