#include "paceline/app/launch/hosts/hosts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/core/base/processors.h"

namespace paceline::launch {
namespace {

using ::testing::ElementsAre;

TEST(Hosts, ListsHaveTheFormOfHorovodAndMpich) {
  EXPECT_THAT(parse_hosts("a:2,b:3").value(), ElementsAre(HostSlots{"a", 2}, HostSlots{"b", 3}));
  EXPECT_THAT(parse_hosts("a").value(), ElementsAre(HostSlots{"a", 1}));
  EXPECT_THAT(parse_hosts("n[08-10]:4,login").value(),
              ElementsAre(HostSlots{"n08", 4}, HostSlots{"n09", 4}, HostSlots{"n10", 4},
                          HostSlots{"login", 1}));
  EXPECT_THAT(parse_hosts("[fd00::2]:2,10.0.0.1").value(),
              ElementsAre(HostSlots{"fd00::2", 2}, HostSlots{"10.0.0.1", 1}));
  EXPECT_THAT(parse_hosts("a:2,b,a").value(), ElementsAre(HostSlots{"a", 3}, HostSlots{"b", 1}));
}

TEST(Hosts, FilesHaveTheFormsOfOpenMpiHorovodAndMpich) {
  const auto hosts = parse_hostfile(
      "# cluster\n\na slots=2 max_slots=4  # the first\r\n  b:3\nc\nd max-slots=8 slots=8", "F");
  EXPECT_THAT(hosts.value(), ElementsAre(HostSlots{"a", 2}, HostSlots{"b", 3}, HostSlots{"c", 1},
                                         HostSlots{"d", 8}));
}

TEST(Hosts, RanksFillHostAfterHost) {
  const std::vector<HostSlots> hosts = {{"a", 2}, {"b", 3}, {"c", 2}};
  EXPECT_THAT(share_ranks(hosts, 0).value(),
              ElementsAre(HostShare{"a", 0, 2}, HostShare{"b", 2, 3}, HostShare{"c", 5, 2}));
  EXPECT_THAT(share_ranks(hosts, 4).value(),
              ElementsAre(HostShare{"a", 0, 2}, HostShare{"b", 2, 2}));
  EXPECT_FALSE(share_ranks(hosts, 8));
}

TEST(Hosts, ThisHostIsKnownByNameAndAddress) {
  for (const std::string& name :
       {std::string("localhost"), std::string("127.0.0.1"), host_name(), std::string("::1")}) {
    EXPECT_TRUE(name == "::1" || is_this_host(name)) << name;
  }
  EXPECT_FALSE(is_this_host("192.0.2.77"));
  EXPECT_FALSE(is_this_host("no-such-host.invalid"));
}

}  // namespace
}  // namespace paceline::launch
