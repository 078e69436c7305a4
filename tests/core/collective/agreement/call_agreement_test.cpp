// The tests look at rank 0 of nine ranks that have no links. The ranks give their assent by the
// tree (agreement/fingerprint_barrier.h), so rank 0 waits for its children and sends nothing before.
#include "paceline/core/collective/agreement/call_agreement.h"

#include <gtest/gtest.h>

#include "paceline/core/collective/carrier/link_carrier.h"

namespace paceline::collective {
namespace {

constexpr int kRanks = 9;
static_assert(kRanks >= FingerprintBarrier::kFewestRanks);

std::shared_ptr<membership::Generation> generation_of_ranks_that_take_turns() {
  auto generation = std::make_shared<membership::Generation>(
      membership::GenerationIdentity{.rank = 0, .size = kRanks});
  generation->set_hosts(
      {.of_ranks = std::vector<int>(kRanks), .pools = {{Members::all_of(*generation), 1}}});
  return generation;
}

struct Waiting {
  const std::shared_ptr<membership::Generation> generation = generation_of_ranks_that_take_turns();
  Members members{generation, Members::all_of(*generation)};
  Traffic traffic;
  LinkCarrier posted_calls{members, 1, traffic};
  FrameMark mark{.group = 1, .sequence = 7, .descriptor = 42};
  Request request{.call = {.operation = Operation::barrier}};
  CallAgreement attendance{members, posted_calls, mark, request, traffic};

  Waiting() { attendance.begin(); }
};

TEST(CallAgreement, WaitsForAssentAndHasNotToldItsCall) {
  const Waiting rank;
  EXPECT_FALSE(rank.attendance.is_posted());
  EXPECT_FALSE(rank.attendance.is_over());
  EXPECT_TRUE(rank.attendance.may_ask_all());
  EXPECT_EQ(rank.attendance.missing().size(), std::size_t{kRanks - 1});
}

// The peer asks who has called: it must not take this rank for one that has not.
TEST(CallAgreement, ARankThatIsToldACallTellsItsOwn) {
  Waiting rank;
  rank.attendance.hear_call(3, rank.request.call);
  EXPECT_FALSE(rank.attendance.may_ask_all()) << "it has told all";
  EXPECT_EQ(rank.attendance.missing(), (std::vector{1, 2, 4, 5, 6, 7, 8}));
}

TEST(CallAgreement, AMessageOfAnotherCallIsNotHeededAndMakesARankTellItsOwn) {
  Waiting rank;
  EXPECT_TRUE(rank.attendance.heeds(rank.mark.header(transport::FrameType::data)));
  EXPECT_TRUE(rank.attendance.may_ask_all());
  FrameMark other = rank.mark;
  other.descriptor = 43;
  EXPECT_FALSE(rank.attendance.heeds(other.header(transport::FrameType::data)));
  EXPECT_FALSE(rank.attendance.may_ask_all());
}

TEST(CallAgreement, IsOverWhenAllHaveToldTheirCalls) {
  Waiting rank;
  for (int peer = 1; peer < kRanks; ++peer) {
    EXPECT_FALSE(rank.attendance.is_over());
    rank.attendance.hear_call(peer, rank.request.call);
  }
  EXPECT_TRUE(rank.attendance.is_over());
  EXPECT_TRUE(rank.attendance.missing().empty());
  EXPECT_FALSE(rank.attendance.knows_by_assent());
}

}  // namespace
}  // namespace paceline::collective
