// The promises of every codec.
#include "paceline/core/compress/payload/codec.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "paceline/core/base/seed.h"
#include "paceline/core/compress/codecs/casts.h"
#include "paceline/core/compress/codecs/ef_sign.h"
#include "paceline/core/compress/codecs/one_bit.h"
#include "paceline/core/compress/codecs/qsgd.h"
#include "paceline/core/compress/codecs/top_k.h"
#include "tests/support/every_target.h"
#include "tests/support/gradients.h"
#include "tests/support/nightly.h"
#include "tests/support/seed.h"

namespace paceline::compress {
namespace {

using test::encoded, test::decoded, test::gradient, test::there_and_back;

struct Case {
  const char* name;
  std::unique_ptr<Codec> (*make)();
  bool selects = false;  // its values come back as they are, or as 0
};

const Case kCodecs[] = {
    {"fp16", [] { return cast_codec(Dtype::f16); }},
    {"bf16", [] { return cast_codec(Dtype::bf16); }},
    {"int8", [] { return int8_codec(); }},
    {"qsgd", [] { return qsgd_codec(); }},
    {"qsgd of 5 bits in buckets of 7", [] { return qsgd_codec({.bits = 5, .bucket = 7}); }},
    {"terngrad", [] { return terngrad_codec(); }},
    {"ef_sign", [] { return ef_sign_codec(); }},
    {"one_bit", [] { return one_bit_codec(); }},
    {"top_k", [] { return top_k_codec(0.05); }, true},
    {"top_k of all", [] { return top_k_codec(1); }, true},
};

class EveryCodec : public ::testing::TestWithParam<Case> {
 protected:
  std::unique_ptr<Codec> codec_ = GetParam().make();
};
INSTANTIATE_TEST_SUITE_P(Of, EveryCodec, ::testing::ValuesIn(kCodecs), [](const auto& instance) {
  std::string name = instance.param.name;
  std::ranges::replace(name, ' ', '_');
  return name;
});

TEST_P(EveryCodec, TakesATensorWithoutElements) {
  std::vector<std::byte> payload(codec_->longest_payload(0));
  const auto bytes = codec_->encode({}, {}, payload);
  ASSERT_TRUE(bytes.has_value());
  EXPECT_TRUE(codec_->decode(Bytes(payload).first(*bytes), {}));
}

TEST_P(EveryCodec, ReportsWhatIsNotFiniteWhereverItIs) {
  for (const std::size_t elements : {1, 16, 33, 1003}) {
    for (std::size_t i = 0; i < elements; i += 1 + elements / 50) {
      for (const float bad : {std::numeric_limits<float>::quiet_NaN(), -INFINITY, INFINITY}) {
        auto values = gradient(elements, 1);
        values[i] = bad;
        EXPECT_TRUE(encoded(*codec_, values).empty()) << bad << " at " << i << " of " << elements;
      }
    }
  }
}

TEST_P(EveryCodec, KeepsWhatErrorFeedbackNeeds) {
  const auto values = gradient(1003, 2);
  const auto sent = there_and_back(*codec_, values);
  float largest = 0;
  for (const float value : values) largest = std::max(largest, std::abs(value));
  const float unit = std::nextafter(largest, INFINITY) - largest;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float residual = values[i] - sent[i], sum = residual + sent[i];
    ASSERT_LE(std::abs(sum - values[i]), GetParam().selects ? 0 : unit);
  }
}

TEST_P(EveryCodec, WritesTheSameBytesWithEveryInstructionSet) {
  std::vector<std::size_t> counts = {5003, 20011};
  for (std::size_t n = 0; n <= 200; ++n) counts.push_back(n);
  const auto write = [&](std::size_t n) {
    return encoded(*codec_, gradient(n, n), {.seed = 9, .tensor = 8, .step = 7, .rank = 6});
  };
  for (const std::size_t n : counts) {
    const auto payload = write(n);
    const auto values = decoded(*codec_, payload, n);
    test::for_each_target([&] {
      ASSERT_EQ(write(n), payload) << n << " elements";
      const auto back = decoded(*codec_, payload, n);
      ASSERT_TRUE(
          std::ranges::equal(std::as_bytes(std::span(back)), std::as_bytes(std::span(values))));
    });
  }
}

TEST_P(EveryCodec, WritesTheSameBytesWhereverTheyLie) {
  const auto values = gradient(1003, 3);
  const auto payload = encoded(*codec_, values);
  const auto back = decoded(*codec_, payload, values.size());
  for (std::size_t offset = 1; offset < 8; ++offset) {
    std::vector<std::byte> place(offset + payload.size() + 8, std::byte{0x5a});
    const auto there = std::span(place).subspan(offset);
    ASSERT_EQ(codec_->encode(values, {}, there), payload.size());
    EXPECT_TRUE(std::ranges::equal(there.first(payload.size()), payload));
    EXPECT_EQ(decoded(*codec_, there.first(payload.size()), values.size()), back);
    EXPECT_TRUE(std::ranges::all_of(there.subspan(payload.size()),
                                    [](std::byte b) { return b == std::byte{0x5a}; }));
  }
}

TEST_P(EveryCodec, RefusesAPlaceThatIsTooShort) {
  const auto values = gradient(100, 4);
  std::vector<std::byte> payload(codec_->longest_payload(100) - 1);
  EXPECT_THROW((void)codec_->encode(values, {}, payload), Error);
}

TEST_P(EveryCodec, RefusesPayloadsOfAnotherLength) {
  for (const std::size_t n : {0, 1, 8, 100}) {
    auto payload = encoded(*codec_, gradient(n, 5));
    std::vector<float> values(n);
    payload.push_back({});
    EXPECT_FALSE(codec_->decode(payload, values));
    payload.pop_back();
    for (std::size_t length = 0; length < payload.size(); ++length)
      EXPECT_FALSE(codec_->decode(Bytes(payload).first(length), values)) << length;
  }
}

// Random bytes, and payloads with a few of them changed: refused, or decoded to finite values.
TEST_P(EveryCodec, SurvivesAnyBytes) {
  SeededNumbers numbers(test::seed(6));
  for (int round = 0; round < (test::is_nightly() ? 200000 : 2000); ++round) {
    const std::size_t n = numbers.below(100);
    auto payload = encoded(*codec_, gradient(n, numbers.next()));
    const bool all = numbers.below(4) == 0;
    for (std::size_t i = 0; i < payload.size(); ++i) {
      if (all || numbers.below(payload.size()) < 2)
        payload[i] = static_cast<std::byte>(numbers.below(3) == 0 ? 0xff : numbers.below(256));
    }
    std::vector<float> values(n, NAN);
    const auto done = codec_->decode(payload, values);
    if (!done) {
      EXPECT_NE(done.error().what.find("malformed"), std::string::npos);
      continue;
    }
    EXPECT_TRUE(std::ranges::all_of(values, [](float v) { return std::isfinite(v); }));
  }
}

}  // namespace
}  // namespace paceline::compress
