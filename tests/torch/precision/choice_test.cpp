// DataParallelOptions::precision is read, and refused by name.
#include "paceline/torch/precision/choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>

#include "paceline/core/base/base.h"

namespace paceline::precision {
namespace {

TEST(PrecisionChoice, ReadsModesAndSettings) {
  EXPECT_EQ(parse_precision("none").value().mode, Mode::none);
  const PrecisionChoice o1 = parse_precision("o1").value();
  EXPECT_EQ(o1.mode, Mode::o1);
  EXPECT_EQ(o1.type, at::kBFloat16);
  EXPECT_FALSE(o1.has_scaler());
  const PrecisionChoice o2 = parse_precision("o2:dtype=fp16,scale=1024,interval=7").value();
  EXPECT_EQ(o2.mode, Mode::o2);
  EXPECT_EQ(o2.type, at::kHalf);
  EXPECT_TRUE(o2.has_scaler());
  EXPECT_EQ(o2.scale, 1024);
  EXPECT_EQ(o2.interval, 7);
  EXPECT_EQ(o2.floor, 1);
  EXPECT_EQ(parse_precision("o1:dtype=fp16,floor=0.25").value().floor, 0.25);
}

void expect_refused(const std::string& text, const std::string& part) {
  const auto choice = parse_precision(text);
  ASSERT_FALSE(choice) << text;
  EXPECT_NE(choice.error().what.find(part), std::string::npos) << choice.error().what;
}

TEST(PrecisionChoice, RefusesByNameWhatItDoesNotKnow) {
  expect_refused("o3", "none");
  expect_refused("none:dtype=bf16", "dtype");
  expect_refused("o1:dtype=fp8", "bf16");
  expect_refused("o2:size=3", "interval");
  expect_refused("o2:scale=1024", "dtype=fp16");
  expect_refused("o2:dtype=fp16,scale=1000", "power of two");
  expect_refused("o2:dtype=fp16,interval=0", "interval");
  expect_refused("o2:floor=2", "dtype=fp16");
  expect_refused("o2:dtype=fp16,floor=3", "power of two");
  expect_refused("o2:dtype=fp16,scale=64,floor=128", "below its floor 128");
}

void expect_unfit(const DataParallelOptions& options, const std::string& part,
                  bool has_model = true) {
  try {
    require_fitting(parse_precision(options.precision).value(), options, has_model);
    ADD_FAILURE() << options.precision << " was taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::misuse);
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

TEST(PrecisionChoice, RefusesOptionsThatDoNotGoWithIt) {
  expect_unfit({.synchrony = "local_sgd:period=8", .precision = "o2"}, "local_sgd:period=8");
  expect_unfit({.synchrony = "local_sgd", .precision = "o1:dtype=fp16"}, "local_sgd");
  expect_unfit({.synchrony = "local_sgd", .max_grad_norm = 1}, "max_grad_norm");
  expect_unfit({.compression = "top_k", .precision = "o2:dtype=fp16"}, "top_k");
  expect_unfit({.non_finite = "stop"}, "non_finite is \"stop\"");
  expect_unfit({.precision = "o2"}, "module", false);
  const DataParallelOptions fits = {.synchrony = "local_sgd", .precision = "o1"};
  EXPECT_NO_THROW(require_fitting(parse_precision("o1").value(), fits, false));
}

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
