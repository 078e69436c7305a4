#include "paceline/core/compress/state/saved_state.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "paceline/core/base/crc32c.h"
#include "paceline/core/base/seed.h"
#include "tests/support/nightly.h"
#include "tests/support/seed.h"

namespace paceline::compress {
namespace {

using ::testing::HasSubstr;
using Sharing = StateView::Sharing;

const std::vector<float> kResidual = {1, -2, 3.5F, 0, 1e-30F, -7}, kOwner = {0.25F, -0.5F};

SavedState sample() {
  return {.rank = 1,
          .ranks = 3,
          .step = 4000000000,
          .elements = {10, 0, 7},
          .values = {{.tensor = 0,
                      .begin = 4,
                      .rows = 2,
                      .columns = 3,
                      .compression = "ef_sign:min_compress_bytes=0",
                      .sharing = Sharing::own,
                      .name = "residual",
                      .values = std::as_bytes(std::span(kResidual))},
                     {.tensor = 2,
                      .begin = 0,
                      .rows = 1,
                      .columns = 7,
                      .compression = "ef_sign:min_compress_bytes=0",
                      .sharing = Sharing::chunk,
                      .name = "owner_residual",
                      .values = std::as_bytes(std::span(kOwner))}}};
}

std::string description_of(Bytes bytes) {
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data() + 8, sizeof length);
  return {reinterpret_cast<const char*>(bytes.data()) + 16, length};
}

// The sample with another description, its checksum right.
std::vector<std::byte> described(std::string description) {
  const auto good = bytes_of(sample());
  description.resize((description.size() + 7) / 8 * 8, ' ');
  const std::uint64_t length = description.size();
  std::vector<std::byte> bytes(good.begin(), good.begin() + 8);
  const auto append = [&](Bytes more) { bytes.insert(bytes.end(), more.begin(), more.end()); };
  append(std::as_bytes(std::span(&length, 1)));
  append(std::as_bytes(std::span(description)));
  append(Bytes(good).subspan(16 + description_of(good).size(), 32));
  const std::uint32_t checksum = crc32c(bytes);
  append(std::as_bytes(std::span(&checksum, 1)));
  return bytes;
}

std::string with(std::string_view what, std::string_view instead) {
  std::string text = description_of(bytes_of(sample()));
  text.replace(text.find(what), what.size(), instead);
  return text;
}

TEST(SavedState, ComesBackAsItWas) {
  const auto bytes = bytes_of(sample());
  const auto state = saved_state_of(bytes).value();
  const SavedState expected = sample();
  EXPECT_EQ(state.rank, expected.rank);
  EXPECT_EQ(state.ranks, expected.ranks);
  EXPECT_EQ(state.step, expected.step);
  EXPECT_EQ(state.elements, expected.elements);
  ASSERT_EQ(state.values.size(), expected.values.size());
  for (std::size_t i = 0; i < state.values.size(); ++i) {
    const SavedValues &got = state.values[i], &want = expected.values[i];
    EXPECT_EQ(got.tensor, want.tensor);
    EXPECT_EQ(got.begin, want.begin);
    EXPECT_EQ(got.rows, want.rows);
    EXPECT_EQ(got.columns, want.columns);
    EXPECT_EQ(got.compression, want.compression);
    EXPECT_EQ(got.sharing, want.sharing);
    EXPECT_EQ(got.name, want.name);
    EXPECT_TRUE(std::ranges::equal(got.values, want.values));
  }
}

TEST(SavedState, SaysInPlainTextWhatItIsOf) {
  EXPECT_EQ(description_of(bytes_of({.rank = 0, .ranks = 2, .step = 3, .elements = {4}})),
            R"({"rank":0,"ranks":2,"step":3,"elements":[4],"values":[]})");
}

TEST(SavedState, CutOffAnywhereOrWithAnyBitTurnedIsRefused) {
  const auto good = bytes_of(sample());
  for (std::size_t length = 0; length < good.size(); ++length)
    EXPECT_FALSE(saved_state_of(Bytes(good).first(length))) << length << " bytes";
  for (std::size_t bit = 0; bit < good.size() * 8; ++bit) {
    auto bad = good;
    bad[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    EXPECT_FALSE(saved_state_of(bad)) << "bit " << bit;
  }
}

TEST(SavedState, OfALaterVersionSaysSo) {
  auto bytes = bytes_of(sample());
  bytes[4] = std::byte{2};
  EXPECT_THAT(saved_state_of(bytes).error().what,
              AllOf(HasSubstr("version 2"), HasSubstr("reads version 1")));
}

TEST(SavedState, ADescriptionThatIsWrongIsRefusedThoughItsChecksumIsRight) {
  ASSERT_TRUE(saved_state_of(described(description_of(bytes_of(sample())))));
  for (const auto& [what, instead] : std::vector<std::pair<std::string, std::string>>{
           {"\"rank\":1", "\"rank\":3"},
           {"\"rank\":1", "\"rank\":-1"},
           {"\"rank\":1", "\"rank\":1.5"},
           {"\"rank\":1", "\"rank\":\"1\""},
           {"\"ranks\":3", "\"ranks\":1e30"},
           {"\"step\":4000000000", "\"step\":4294967296"},
           {"\"step\":4000000000", "\"stop\":4000000000"},
           {"[10,0,7]", "7"},
           {"[10,0,7]", "[10,0,-7]"},
           {"[10,0,7]", "[10,0,18446744073709551615]"},
           {"\"tensor\":2", "\"tensor\":3"},
           {"\"begin\":4", "\"begin\":5"},
           {"\"rows\":2", "\"rows\":10"},
           {"\"columns\":3", "\"columns\":4"},
           {"\"sharing\":\"own\"", "\"sharing\":\"mine\""},
           {"\"bytes\":24", "\"bytes\":20"},
           {"\"bytes\":24", "\"bytes\":23"},
           {"\"bytes\":24", "\"bytes\":2400"},
           {"\"bytes\":24", "\"bytes\":18446744073709551612"},
           {"{\"rank\"", "[{\"rank\""}}) {
    const auto state = saved_state_of(described(with(what, instead)));
    EXPECT_FALSE(state) << instead;
    if (!state) {
      EXPECT_THAT(state.error().what, HasSubstr("begins with zeros")) << instead;
    }
  }
}

TEST(SavedState, SurvivesAnyDescription) {
  const std::uint64_t seed = 11;
  SeededNumbers numbers(test::seed(seed));
  const std::string good = description_of(bytes_of(sample()));
  for (int round = 0; round < (test::is_brief() ? 2000 : 20000); ++round) {
    std::string text = good;
    for (std::uint64_t changes = 1 + numbers.below(3); changes > 0; --changes) {
      const std::size_t at = numbers.below(text.size());
      if (numbers.below(3) == 0) text.erase(at, 1 + numbers.below(20));
      else text[at] = static_cast<char>(32 + numbers.below(95));
      if (text.empty()) text = " ";
    }
    const auto bytes = described(text);
    const auto state = saved_state_of(bytes);
    if (!state) continue;
    for (const SavedValues& one : state.value().values) {
      ASSERT_LE(one.begin + one.elements(), state.value().elements.at(one.tensor))
          << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace paceline::compress
