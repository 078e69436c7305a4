// The controller by itself; with servers it is tried in tests/core/server/machine/chains_test.cpp.
// Also covers paceline/core/server/control/chain_report.cpp.
#include "paceline/core/server/control/controller.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::server {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

// Servers 2, 3 and 4 keep three chains of two for the workers 0 and 1.
class ThreeServers : public testing::Test {
 protected:
  machine::Actions report(int from, std::uint32_t chain, bool is_ready, bool has_caught_up) {
    return controller.on_message(
        from,
        encode(ChainReport{chain, controller.chains()[chain].generation, is_ready, has_caught_up}),
        {});
  }
  Controller controller{first_chains({2, 3, 4}, 2), 2, {0, 1, 2, 3, 4}, {2, 3, 4}};
};

TEST_F(ThreeServers, ALostServerIsCutOutAndASpareOneJoinsBehindTheLast) {
  EXPECT_TRUE(controller.is_whole());
  EXPECT_TRUE(controller.may_lose(3));
  const machine::Actions told = controller.died(3);
  EXPECT_THAT(told, SizeIs(4)) << "all members that live";
  EXPECT_THAT(controller.chains()[0].servers, ElementsAre(2));
  EXPECT_EQ(controller.chains()[0].joiner, 4);
  EXPECT_THAT(controller.chains()[1].servers, ElementsAre(4));
  EXPECT_EQ(controller.chains()[1].joiner, 2);
  EXPECT_THAT(controller.chains()[2].servers, ElementsAre(4, 2)) << "it was not in this one";
  EXPECT_EQ(controller.chains()[2].generation, 1U);
  EXPECT_FALSE(controller.may_lose(2)) << "it is the only one of chain 0";

  report(2, 0, true, true);
  EXPECT_THAT(controller.chains()[0].servers, ElementsAre(2, 4));
  EXPECT_FALSE(controller.may_lose(2)) << "4 has not said that it is ready";
  report(4, 0, true, false);
  report(4, 1, true, true);
  report(2, 1, true, false);
  EXPECT_TRUE(controller.is_whole());
}

TEST_F(ThreeServers, AServerInThePlaceOfAnotherTakesItsPlaces) {
  controller.died(3, true);
  EXPECT_EQ(controller.chains()[0].joiner, std::nullopt) << "it waits for the newcomer";
  controller.came(5);
  EXPECT_EQ(controller.chains()[0].joiner, 5);
  EXPECT_EQ(controller.chains()[1].joiner, 5);
  controller.died(5, true);
  EXPECT_EQ(controller.chains()[0].joiner, std::nullopt);
  controller.died(6, false);
  EXPECT_EQ(controller.chains()[0].joiner, 4) << "nobody comes any more";
  EXPECT_EQ(controller.chains()[1].joiner, 2);
}

TEST_F(ThreeServers, AChainWithoutAServerThatIsReadyIsLostForGood) {
  controller.died(3);
  EXPECT_FALSE(controller.lost());
  controller.died(2);
  ASSERT_TRUE(controller.lost());
  EXPECT_EQ(controller.lost()->chain, 0U);
  EXPECT_THAT(controller.lost()->servers, ElementsAre(2));
  controller.came(7);
  EXPECT_THAT(controller.chains()[0].servers, IsEmpty());
  EXPECT_EQ(controller.chains()[0].joiner, std::nullopt);
}

TEST_F(ThreeServers, ReportsOfOlderGenerationsAndOfStrangersChangeNothing) {
  controller.died(3);
  const std::vector<Chain> before = controller.chains();
  EXPECT_THAT(controller.on_message(2, encode(ChainReport{0, 1, true, true}), {}), IsEmpty());
  EXPECT_THAT(report(4, 0, true, true), IsEmpty()) << "it is not in the chain yet";
  EXPECT_THAT(controller.on_message(2, {.kind = 1, .payload = std::vector<std::byte>(3)}, {}),
              IsEmpty());
  EXPECT_THAT(controller.on_message(2, encode(ChainReport{9, 1, true, true}), {}), IsEmpty());
  EXPECT_EQ(controller.chains(), before);
}

TEST_F(ThreeServers, AServerThatIsToMoveLeavesWhenAnotherOneIsReady) {
  controller.move(0, 2);
  EXPECT_EQ(controller.chains()[0].joiner, 4);
  report(3, 0, true, true);
  EXPECT_THAT(controller.chains()[0].servers, ElementsAre(2, 3, 4));
  report(4, 0, true, false);
  EXPECT_THAT(controller.chains()[0].servers, ElementsAre(3, 4));
}

TEST(ChainReport, ComesBackAsItWasSent) {
  for (const bool one : {false, true})
    for (const bool other : {false, true}) {
      const ChainReport report{3, 77, one, other};
      EXPECT_EQ(parse_chain_report(encode(report)), report);
    }
}

}  // namespace
}  // namespace paceline::server
