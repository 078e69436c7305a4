#include "paceline/core/compress/methods/compression.h"

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
      "random_k has no setting 'ratoi'; it has ratio, feedback, min_compress_bytes, choose_every; "
      "did you mean ratio?");
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

TEST(CompressionText, MayHaveSeveralValuesOfOneSetting) {
  const Compression menu = parsed("top_k:ratio=0.01/0.001/0.1,indices=leader,choose_every=50");
  EXPECT_EQ(menu.offers(), 4);
  EXPECT_EQ(menu.settings["ratio"], 0.01);
  EXPECT_EQ(menu.choose_every, 50u);
  for (const auto& [offer, ratio] : {std::pair{0, 0.01}, {1, 0.001}, {2, 0.1}}) {
    const Compression one = parsed(menu.text_of_offer(offer));
    EXPECT_EQ(one.settings, menu.menu[static_cast<std::size_t>(offer)]);
    EXPECT_EQ(one.settings["ratio"], ratio);
    EXPECT_TRUE(one.settings.on("indices"));
    EXPECT_EQ(one.offers(), 1);
    EXPECT_FALSE(menu.is_whole(offer));
  }
  EXPECT_TRUE(menu.is_whole(3));
  EXPECT_EQ(menu.text(),
            "top_k:ratio=0.01/0.001/0.1,indices=leader,share=1,min_compress_bytes=65536,"
            "choose_every=50");
  EXPECT_EQ(parsed(menu.text()).menu, menu.menu);
  EXPECT_EQ(parsed("power_sgd:rank=4/1").choose_every, 200u);
  EXPECT_FALSE(parsed("top_k").is_whole(0));
}

TEST(CompressionText, WhoseMenuIsWrongIsRefused) {
  EXPECT_EQ(refusal("top_k:ratio=0.01/"), "ratio of top_k is a number from 1e-06 to 1, not ''");
  EXPECT_EQ(refusal("top_k:ratio=0.01/2"), "ratio of top_k is a number from 1e-06 to 1, not '2'");
  EXPECT_EQ(refusal("top_k:ratio=0.1/0.2/0.1"), "ratio of top_k has 0.1 twice in '0.1/0.2/0.1'");
  EXPECT_NE(refusal("top_k:ratio=0.1/0.2,share=0.5/1").find("so has another setting"),
            std::string::npos);
  EXPECT_NE(refusal("top_k:indices=own/leader").find("is own or leader, not 'own/leader'"),
            std::string::npos);
  for (const std::string method : {"dgc", "gtop_k"}) {
    EXPECT_NE(refusal(method + ":ratio=0.01/0.001").find("ratio of " + method + " has one value"),
              std::string::npos);
  }
  EXPECT_NE(refusal("top_k:choose_every=50").find("no setting has several values"),
            std::string::npos);
  EXPECT_NE(refusal("top_k:min_compress_bytes=0/1").find("not '0/1'"), std::string::npos);
}

// The first exchange of an averaging shows whether it is dense.
bool is_dense(const Compression& compression, const AveragedTensor& part) {
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

TEST(Compression, IsByTheOfferOfATensor) {
  const Compression menu = parsed("top_k:ratio=0.01/0.5,min_compress_bytes=0");
  const AveragedTensor part{.rows = 10, .columns = 100};
  std::vector<std::size_t> bytes;
  for (int offer = 0; offer < menu.offers(); ++offer) {
    std::vector<float> gradient(part.elements());
    bytes.push_back(menu.averaging(part, offer)->begin(gradient, 0)->input.size_bytes());
  }
  EXPECT_EQ(bytes[1] - bytes[0], 8u * (500 - 10));
  EXPECT_EQ(bytes[2], 4u * 1000);
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
