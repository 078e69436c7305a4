// Also covers paceline/core/compress/averaging/residual.h.
#include "paceline/core/compress/averaging/envelope.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "paceline/core/compress/averaging/residual.h"
#include "paceline/core/compress/payload/message.h"

namespace paceline::compress {
namespace {

const Envelope kSample{.format = 6, .tensor = 3, .step = 9, .elements = 100};

TEST(Envelope, BringsAPayloadOrAnOverflow) {
  std::vector<std::byte> slot(message_bytes(20));
  std::memcpy(payload_of(slot).data(), "hello", 5);
  seal_in(slot, kSample, 5);
  const auto opened = open_from(2, slot, kSample);
  ASSERT_TRUE(opened) << opened.error().what;
  ASSERT_TRUE(opened.value());
  EXPECT_EQ(std::memcmp(opened.value()->data(), "hello", 5), 0);
  EXPECT_EQ(opened.value()->size(), 5u);
  seal_in(slot, kSample, std::nullopt);
  EXPECT_FALSE(open_from(2, slot, kSample).value());
  EXPECT_THROW(seal_in(slot, kSample, 25), Error) << "longer than its slot";
}

TEST(Envelope, OfAnotherTensorStepOrFormatNamesItsSender) {
  std::vector<std::byte> slot(message_bytes(0));
  seal_in(slot, kSample, 0);
  const auto refusal = [&slot](auto change) {
    Envelope expected = kSample;
    change(expected);
    const auto opened = open_from(4, slot, expected);
    EXPECT_FALSE(opened);
    EXPECT_EQ(opened.error().fault, Fault::mismatch);
    EXPECT_EQ(opened.error().ranks, std::vector<int>{4});
    return opened.error().what;
  };
  EXPECT_EQ(refusal([](Envelope& e) { e.tensor = 7; }).substr(0, 75),
            "rank 4 sent a compressed gradient of tensor 3 where tensor 7 was expected; ");
  refusal([](Envelope& e) { e.format = 1; });
  refusal([](Envelope& e) { e.step = 8; });
  refusal([](Envelope& e) { e.elements = 99; });
  slot[3] ^= std::byte{1};
  const auto damaged = open_from(4, slot, kSample);
  ASSERT_FALSE(damaged);
  EXPECT_EQ(damaged.error().ranks, std::vector<int>{4});
}

TEST(Residual, IsWhatWasNotSent) {
  Residual residual(true, 3);
  std::vector<float> gradient = {1, 2, 3};
  residual.add_to(gradient);
  std::ranges::copy(std::vector<float>{0.5f, 2, 4}, residual.values().begin());
  residual.keep_rest_of(gradient);
  residual.add_to(gradient);
  EXPECT_EQ(gradient, (std::vector<float>{1.5f, 2, 2}));
  residual.keep_all_but(gradient, std::vector<std::uint32_t>{1});
  EXPECT_EQ(std::vector<float>(residual.values().begin(), residual.values().end()),
            (std::vector<float>{1.5f, 0, 2}));
  EXPECT_EQ(residual.state().size(), 1u);
  EXPECT_TRUE(Residual(false, 3).state().empty());
}

TEST(AllFinite, FindsWhateverIsNot) {
  std::vector<float> values(37, 3e38f);
  EXPECT_TRUE(all_finite(values));
  EXPECT_TRUE(all_finite({}));
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float bad : {infinity, -infinity, std::numeric_limits<float>::quiet_NaN()}) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      auto some = values;
      some[i] = bad;
      EXPECT_FALSE(all_finite(some));
    }
  }
}

}  // namespace
}  // namespace paceline::compress
