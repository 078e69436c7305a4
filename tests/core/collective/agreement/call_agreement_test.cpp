// The tests look at rank 0 of nine ranks that have no links. The ranks give their assent by the
// tree (agreement/fingerprint_barrier.h), so rank 0 waits for its children and sends nothing
// before.
#include "paceline/core/collective/agreement/call_agreement.h"

#include <gtest/gtest.h>

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
  const std::string group = "world";
  Members members{generation, Members::all_of(*generation)};
  Traffic traffic;
  Request request{.call = {.operation = Operation::barrier}};
  CallAgreement agreement{members, group, 1, 7, request, traffic};

  Waiting() {
    EXPECT_TRUE(agreement.suits_barrier());
    agreement.begin_barrier();
  }
};

TEST(CallAgreement, WaitsForAssentAndHasNotToldItsCall) {
  const Waiting rank;
  EXPECT_FALSE(rank.agreement.record().is_complete());
  EXPECT_TRUE(rank.agreement.may_ask_all());
  EXPECT_EQ(rank.agreement.missing().size(), std::size_t{kRanks - 1});
}

// The peer asks who has called: it must not take this rank for one that has not.
TEST(CallAgreement, ARankThatIsToldACallTellsItsOwn) {
  Waiting rank;
  rank.agreement.on_call(3, rank.request.call);
  EXPECT_FALSE(rank.agreement.may_ask_all()) << "it has told all";
  EXPECT_EQ(rank.agreement.missing(), (std::vector{1, 2, 4, 5, 6, 7, 8}));
}

TEST(CallAgreement, AMessageOfAnotherCallIsNotAcceptedAndMakesARankTellItsOwn) {
  Waiting rank;
  EXPECT_TRUE(rank.agreement.accepts(rank.agreement.mark().header(transport::FrameType::data)));
  EXPECT_TRUE(rank.agreement.may_ask_all());
  FrameMark other = rank.agreement.mark();
  ++other.descriptor;
  EXPECT_FALSE(rank.agreement.accepts(other.header(transport::FrameType::data)));
  EXPECT_FALSE(rank.agreement.may_ask_all());
}

TEST(CallAgreement, IsReachedWhenAllHaveToldTheirCalls) {
  Waiting rank;
  for (int peer = 1; peer < kRanks; ++peer) {
    EXPECT_FALSE(rank.agreement.record().is_complete());
    rank.agreement.on_call(peer, rank.request.call);
  }
  EXPECT_TRUE(rank.agreement.record().is_complete());
  EXPECT_TRUE(rank.agreement.missing().empty());
  EXPECT_FALSE(rank.agreement.barrier_is_complete());
}

TEST(CallAgreement, ACallThatDiffersOrCannotBeReadNamesItsRank) {
  const Waiting rank;
  Call other = rank.request.call;
  other.operation = Operation::all_reduce;
  const auto mismatch = rank.agreement.check_call(4, encode(other));
  ASSERT_FALSE(mismatch);
  EXPECT_EQ(mismatch.error().fault, Fault::mismatch);
  EXPECT_EQ(mismatch.error().ranks, (std::vector{0, 4}));
  EXPECT_NE(mismatch.error().what.find("in operation 7 of group 'world' rank 0 called barrier"),
            std::string::npos)
      << mismatch.error().what;
  const auto malformed = rank.agreement.check_call(5, {});
  ASSERT_FALSE(malformed);
  EXPECT_EQ(malformed.error().ranks, std::vector{5});
  EXPECT_TRUE(rank.agreement.check_call(4, encode(rank.request.call)).value());
}

}  // namespace
}  // namespace paceline::collective
