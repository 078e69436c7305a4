#include "paceline/core/membership/store/endpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace paceline::membership {
namespace {

using ::testing::HasSubstr;

Endpoint endpoint() {
  return {.host = "h",
          .unix_name = "u",
          .tcp = "1.2.3.4:5",
          .fabric = "f",
          .tcp_carries = false,
          .configuration = "version=1",
          .processors = {"boot", {{5, 0, 1}}, {1.5, 77}},
          .profile = "{}",
          .device = {"00ff", true}};
}

TEST(Endpoint, IsReadAsItWasTold) {
  const Endpoint told = endpoint();
  const Endpoint read = decode_endpoint(encode(told), 3).value();
  EXPECT_EQ(read.host, told.host);
  EXPECT_EQ(read.unix_name, told.unix_name);
  EXPECT_EQ(read.tcp, told.tcp);
  EXPECT_EQ(read.fabric, told.fabric);
  EXPECT_EQ(read.tcp_carries, told.tcp_carries);
  EXPECT_EQ(read.configuration, told.configuration);
  EXPECT_EQ(read.processors.machine, told.processors.machine);
  EXPECT_EQ(read.processors.allowed.words, told.processors.allowed.words);
  EXPECT_EQ(read.processors.quota.processors, told.processors.quota.processors);
  EXPECT_EQ(read.processors.quota.group, told.processors.quota.group);
  EXPECT_EQ(read.profile, told.profile);
  EXPECT_EQ(read.device, told.device);
}

TEST(Endpoint, OfEveryProcessHereIsAccepted) {
  Endpoint own = endpoint();
  own.processors = own_processors();
  EXPECT_TRUE(decode_endpoint(encode(own), 0));
}

TEST(Endpoint, ThatIsCutAnywhereOrGoesOnIsRefusedAndNamesItsRank) {
  std::vector<std::byte> bytes = encode(endpoint());
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    const auto cut = decode_endpoint(Bytes(bytes).first(length), 3);
    ASSERT_FALSE(cut) << length;
    EXPECT_THAT(cut.error().what, HasSubstr("rank 3 published a malformed endpoint"));
    EXPECT_EQ(cut.error().ranks, std::vector{3});
  }
  bytes.push_back({});
  EXPECT_FALSE(decode_endpoint(bytes, 3));
}

TEST(Endpoint, OfNoProcessorsOrOfMoreThanThereAreIsRefused) {
  constexpr auto* kWhat =
      "rank 3 published a malformed endpoint: it must have 1 to 8192 processors and a "
      "share of their time above 0";
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  const auto refuses = [&](std::vector<std::uint64_t> words, double quota) {
    Endpoint bad = endpoint();
    bad.processors.allowed.words = std::move(words);
    bad.processors.quota.processors = quota;
    const auto read = decode_endpoint(encode(bad), 3);
    return !read && read.error().what == kWhat;
  };
  EXPECT_FALSE(refuses({1}, 1));
  EXPECT_TRUE(refuses({}, 1));
  EXPECT_TRUE(refuses({0, 0}, 1));
  EXPECT_FALSE(refuses(std::vector<std::uint64_t>(ProcessorSet::kMostWords, 1), 1));
  EXPECT_TRUE(refuses(std::vector<std::uint64_t>(ProcessorSet::kMostWords + 1, 1), 1));
  for (const double quota : {0.0, -1.0, kNaN}) EXPECT_TRUE(refuses({1}, quota));
}

TEST(Endpoint, TextsAreBounded) {
  Endpoint long_name = endpoint();
  long_name.processors.machine = std::string(257, 'x');
  EXPECT_FALSE(decode_endpoint(encode(long_name), 0));
  Endpoint long_profile = endpoint();
  long_profile.profile = std::string(kLongestProfile + 1, 'x');
  EXPECT_FALSE(decode_endpoint(encode(long_profile), 0));
  Endpoint long_identity = endpoint();
  long_identity.device.identity = std::string(65, '0');
  EXPECT_FALSE(decode_endpoint(encode(long_identity), 0));
}

}  // namespace
}  // namespace paceline::membership
