#include "paceline/core/server/table/chain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <utility>

#include "paceline/core/base/seed.h"
#include "paceline/core/server/table/table_spec.h"
#include "tests/support/seed.h"

namespace paceline::server {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Chain, EachServerIsInAsManyFirstChainsAsThereAreReplicas) {
  for (int servers = 1; servers <= 6; ++servers) {
    std::vector<int> numbers;
    for (int i = 0; i < servers; ++i) numbers.push_back(10 + i);
    for (int replicas = 1; replicas <= std::min(servers, kMostReplicas); ++replicas) {
      const std::vector<Chain> chains = first_chains(numbers, replicas);
      for (std::size_t i = 0; i < chains.size(); ++i) {
        EXPECT_EQ(chains[i].servers.front(), numbers[i]);
        EXPECT_EQ(std::set<int>(chains[i].servers.begin(), chains[i].servers.end()).size(),
                  static_cast<std::size_t>(replicas));
      }
      for (const int server : numbers)
        EXPECT_EQ(std::ranges::count_if(chains, [&](const Chain& one) { return one.has(server); }),
                  replicas);
    }
  }
}

TEST(Chain, KnowsWhoStandsBeforeAndBehindWhom) {
  const Chain chain{.servers = {4, 2, 7}, .joiner = 9};
  EXPECT_EQ(chain.before(4), std::nullopt);
  EXPECT_EQ(chain.before(2), 4);
  EXPECT_EQ(chain.before(9), 7);
  EXPECT_EQ(chain.behind(4), 2);
  EXPECT_EQ(chain.behind(7), 9);
  EXPECT_EQ(chain.behind(9), std::nullopt);
  EXPECT_EQ(chain.behind(5), std::nullopt);
}

TEST(Chain, ComesBackAsItWasSentAndOtherBytesAreRefused) {
  const std::vector<Chain> chains = {{3, {4, 2}, 9}, {1, {2}, {}}, {8, {}, {}}};
  const std::vector<std::byte> bytes = encode(chains);
  auto read = parse_chains(bytes);
  EXPECT_THAT(std::move(read).value(), ElementsAre(chains[0], chains[1], chains[2]));
  SeededNumbers numbers(test::seed(3530000));
  for (int number = 0; number < 100'000; ++number) {
    std::vector<std::byte> other = bytes;
    other[numbers.below(other.size())] ^= std::byte(1 << numbers.below(8));
    other.resize(numbers.below(other.size() + 1));
    if (const auto parsed = parse_chains(other); !parsed) {
      EXPECT_THAT(parsed.error().what, HasSubstr("make no sense"));
    }
  }
}

TEST(Chain, ReplicasOfATableNeedAsManyServersThatAreNoWorkers) {
  const auto error_of = [](int replicas, const TableMembers& members) {
    const auto shape = shape_of({.name = "w", .elements = 8, .replicas = replicas}, members);
    return shape ? "" : shape.error().what;
  };
  const TableMembers two = TableMembers::of_servers(2, 2);
  EXPECT_EQ(error_of(2, two), "");
  EXPECT_THAT(error_of(0, two), HasSubstr("it has 0 replicas: give it 1 .. 3"));
  EXPECT_THAT(error_of(3, two), HasSubstr("its 3 replicas need as many servers, and there are 2"));
  EXPECT_THAT(error_of(2, TableMembers::of_ranks(2)), HasSubstr("servers that are no workers"));
}

}  // namespace
}  // namespace paceline::server
