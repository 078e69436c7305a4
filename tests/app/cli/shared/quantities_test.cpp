#include "paceline/app/cli/shared/quantities.h"

#include <gtest/gtest.h>

#include "paceline/core/base/result.h"

namespace paceline::cli {
namespace {

using std::chrono::milliseconds;

TEST(Quantities, CountsAreWholeAndInRange) {
  EXPECT_EQ(parse_count("-n", "1", 1, 4), 1);
  EXPECT_EQ(parse_count("-n", "4", 1, 4), 4);
  for (const char* text :
       {"", "0", "5", "-1", "1x", " 1", "1.0", "0x1", "9999999999999999999999"}) {
    EXPECT_THROW(parse_count("-n", text, 1, 4), Error) << text;
  }
}

TEST(Quantities, ListsOfCountsHaveRangesAndEachCountOnce) {
  EXPECT_EQ(parse_counts("--ranks", "3", 1, 9), (std::vector<int>{3}));
  EXPECT_EQ(parse_counts("--ranks", "2..5", 1, 9), (std::vector<int>{2, 3, 4, 5}));
  EXPECT_EQ(parse_counts("--ranks", "8,1..3,2", 1, 9), (std::vector<int>{1, 2, 3, 8}));
  for (const char* text :
       {"", "1..", "..2", "5..2", "1..10", "0..2", "1-3", "1,,2", "1...3", "a"}) {
    EXPECT_THROW(parse_counts("--ranks", text, 1, 9), Error) << text;
  }
}

TEST(Quantities, PartsBetweenSeparatorsMayBeEmpty) {
  EXPECT_EQ(cli::split("a,,b,", ','), (std::vector<std::string>{"a", "", "b", ""}));
  EXPECT_EQ(cli::split("", ','), (std::vector<std::string>{""}));
}

TEST(Quantities, DurationsHaveUnits) {
  EXPECT_EQ(parse_duration("-t", "2"), milliseconds(2000));
  EXPECT_EQ(parse_duration("-t", "1.5"), milliseconds(1500));
  EXPECT_EQ(parse_duration("-t", "250ms"), milliseconds(250));
  EXPECT_EQ(parse_duration("-t", "90s"), milliseconds(90'000));
  EXPECT_EQ(parse_duration("-t", "10min"), milliseconds(600'000));
  EXPECT_EQ(parse_duration("-t", "2h"), milliseconds(7'200'000));
  for (const char* text :
       {"", "s", "0", "-1", "1 s", "1d", "1.2.3", "inf", "nan", "1e9h", "99999999999999h"}) {
    EXPECT_THROW(parse_duration("-t", text), Error) << text;
  }
}

TEST(Quantities, AddressesAreThisHosts) {
  EXPECT_EQ(parse_loopback_address("-s", "127.0.0.1:5000"), (Address{"127.0.0.1", 5000}));
  EXPECT_EQ(parse_loopback_address("-s", "127.1.2.3:0"), (Address{"127.1.2.3", 0}));
  EXPECT_EQ(parse_loopback_address("-s", "localhost:1"), (Address{"127.0.0.1", 1}));
  for (const char* text :
       {"", ":", ":1", "127.0.0.1", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:65536", "0.0.0.0:1",
        "192.168.1.1:1", "example.org:1", "[::1]:1"}) {
    EXPECT_THROW(parse_loopback_address("-s", text), Error) << text;
  }
}

TEST(Quantities, ChoicesAreFromTheList) {
  EXPECT_EQ(parse_choice("-t", "tcp", {"shm", "tcp"}), "tcp");
  EXPECT_THROW(parse_choice("-t", "", {"shm", "tcp"}), Error);
}

TEST(Quantities, SizesHaveBinaryUnits) {
  EXPECT_EQ(parse_size("-s", "1"), 1U);
  EXPECT_EQ(parse_size("-s", "7B"), 7U);
  EXPECT_EQ(parse_size("-s", "16KiB"), 16U << 10);
  EXPECT_EQ(parse_size("-s", "3MiB"), 3U << 20);
  EXPECT_EQ(parse_size("-s", "1GiB"), 1U << 30);
  for (const char* text : {"", "0", "-1", "KiB", "1 KiB", "1.5MiB", "1KB", "1kib", "0x10",
                           "2000GiB", "99999999999999999999", "16777216TiB"}) {
    EXPECT_THROW(parse_size("-s", text), Error) << text;
  }
}

TEST(Quantities, RangesOfSizesGoByFactorsOfFour) {
  using Sizes = std::vector<std::size_t>;
  EXPECT_EQ(parse_sizes("-s", "4..1KiB"), (Sizes{4, 16, 64, 256, 1024}));
  EXPECT_EQ(parse_sizes("-s", "4..1023"), (Sizes{4, 16, 64, 256}));
  EXPECT_EQ(parse_sizes("-s", "4..4"), (Sizes{4}));
  EXPECT_EQ(parse_sizes("-s", "1MiB,4"), (Sizes{1 << 20, 4}));
  EXPECT_EQ(parse_sizes("-s", "8,1KiB..4KiB,9"), (Sizes{8, 1024, 4096, 9}));
  const Sizes all = parse_sizes("-s", "4..256MiB");
  EXPECT_EQ(all.size(), 14U);
  EXPECT_EQ(all.back(), std::size_t{256} << 20);
  for (const char* text : {"", ",", "4,", ",4", "4,,8", "8..4", "..4", "4..", "4..8..16", "4...8"})
    EXPECT_THROW(parse_sizes("-s", text), Error) << text;
}

TEST(Quantities, ASizeIsToldInTheUnitThatFits) {
  EXPECT_EQ(size_text(0), "0 B");
  EXPECT_EQ(size_text(4), "4 B");
  EXPECT_EQ(size_text(1536), "1.5 KiB");
  EXPECT_EQ(size_text(std::size_t{256} << 20), "256 MiB");
}

TEST(Quantities, ListsAreSeparatedByCommas) {
  EXPECT_EQ(parse_list("-l", "a"), (std::vector<std::string>{"a"}));
  EXPECT_EQ(parse_list("-l", "a,b c,d"), (std::vector<std::string>{"a", "b c", "d"}));
  for (const char* text : {"", ",", "a,", ",a"})
    EXPECT_THROW(parse_list("-l", text), Error) << text;
}

TEST(Quantities, ABandwidthIsBitsOrBytesASecond) {
  EXPECT_EQ(parse_bandwidth("--bandwidth", "1gbit"), 125e6);
  EXPECT_EQ(parse_bandwidth("--bandwidth", "200mbit"), 25e6);
  EXPECT_EQ(parse_bandwidth("--bandwidth", "1MiB"), 1048576);
}

}  // namespace
}  // namespace paceline::cli
