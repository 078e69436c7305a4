#include "paceline/core/compress/compression.h"

#include <gtest/gtest.h>

namespace paceline::compress {
namespace {

Compression parsed(std::string_view text) {
  return parse_compression(text, built_in_methods()).value();
}

std::string refusal(std::string_view text) {
  const auto result = parse_compression(text, built_in_methods());
  if (result) return "accepted";
  EXPECT_EQ(result.error().fault, Fault::misuse);
  return result.error().what;
}

TEST(CompressionText, HasThePublishedSettingsUnlessItSaysOthers) {
  EXPECT_EQ(parsed("top_k").settings["ratio"], 0.01);
  EXPECT_EQ(parsed("top_k:ratio=0.25").settings["ratio"], 0.25);
  const Compression power = parsed("power_sgd:rank=4,start=cold,min_compress_bytes=0");
  EXPECT_EQ(power.method.name, "power_sgd");
  EXPECT_EQ(power.settings.as<int>("rank"), 4);
  EXPECT_TRUE(power.settings.on("start"));
  EXPECT_TRUE(power.settings.on("feedback"));
  EXPECT_EQ(power.min_compress_bytes, 0u);
  EXPECT_EQ(parsed("dgc").min_compress_bytes, 65536u);
}

TEST(CompressionText, IsWhatItIsParsedFrom) {
  EXPECT_EQ(parsed("top_k:indices=leader").text(),
            "top_k:ratio=0.01,indices=leader,share=1,min_compress_bytes=65536");
  EXPECT_EQ(parsed("fp16").text(), "fp16:min_compress_bytes=65536");
  for (const Method& method : built_in_methods()) {
    const Compression once = parsed(method.name);
    EXPECT_EQ(parsed(once.text()).settings, once.settings) << method.name;
  }
}

TEST(CompressionText, ThatIsWrongIsRefusedWithWhatThereIs) {
  EXPECT_EQ(refusal("topk"),
            "there is no compression 'topk'; there are adacomp, bf16, dgc, ef_sign, "
            "fp16, gtop_k, int8, one_bit, one_bit_adam, power_sgd, qsgd, random_k, sign, terngrad, "
            "top_k; did you mean top_k?");
  EXPECT_NE(refusal("").find("there is no compression ''; there are adacomp, bf16"),
            std::string::npos);
  EXPECT_EQ(
      refusal("random_k:ratoi=1"),
      "random_k has no setting 'ratoi'; it has ratio, feedback, min_compress_bytes; did you mean "
      "ratio?");
  EXPECT_EQ(refusal("top_k:ratio=0"), "ratio of top_k is a number from 1e-06 to 1, not '0'");
  EXPECT_EQ(refusal("top_k:ratio=nan"), "ratio of top_k is a number from 1e-06 to 1, not 'nan'");
  EXPECT_EQ(refusal("top_k:ratio=1%"), "ratio of top_k is a number from 1e-06 to 1, not '1%'");
  EXPECT_EQ(refusal("power_sgd:rank=1.5"),
            "rank of power_sgd is a whole number from 1 to 1024, not '1.5'");
  EXPECT_EQ(refusal("top_k:indices=led"), "indices of top_k is own or leader, not 'led'");
  EXPECT_EQ(refusal("top_k:ratio"), "setting ratio of top_k has no value: write ratio=...");
  EXPECT_EQ(refusal("top_k:ratio=1,ratio=1"), "setting ratio of top_k is given twice");
  EXPECT_NE(refusal("top_k:").find("top_k has no setting ''"), std::string::npos);
  EXPECT_NE(refusal("fp16:x=1").find("fp16 has no setting 'x'"), std::string::npos);
}

// What the averaging sends first tells which one it is.
bool is_dense(const Compression& compression, const Part& part) {
  std::vector<float> gradient(part.elements());
  const auto exchange = compression.averaging(part)->begin(gradient, 0);
  return exchange->output.data == buffer_of(gradient).data;
}

TEST(Compression, IsForMatricesThatAreLongEnough) {
  const Compression compression = parsed("fp16");
  EXPECT_FALSE(is_dense(compression, {.rows = 128, .columns = 128}));
  EXPECT_TRUE(is_dense(compression, {.rows = 128, .columns = 127})) << "short of 64 KiB";
  EXPECT_TRUE(is_dense(compression, {.rows = 1, .columns = 100000})) << "a bias";
  EXPECT_TRUE(is_dense(compression, {.rows = 100000, .columns = 1}));
  EXPECT_FALSE(is_dense(parsed("fp16:min_compress_bytes=0"), {.rows = 2, .columns = 2}));
}

TEST(Compression, GivesSmallTensorsTheSameKindOfResult) {
  for (const Method& method : built_in_methods()) {
    if (method.outcome == Method::Outcome::direction) {
      EXPECT_NE(method.make_small, nullptr)
          << method.name << ": plain SGD would apply a mean gradient as it is";
    }
  }
}

}  // namespace
}  // namespace paceline::compress
