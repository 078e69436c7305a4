// The frames are handed over by hand, as soon as their ranks may tell them. Also covers
// paceline/core/collective/agreement/gathered_blocks.h.
#include "paceline/core/collective/agreement/gathered_weights.h"

#include <gtest/gtest.h>

namespace paceline::collective {
namespace {

struct Rank {
  FingerprintBarrier assent;
  GatheredWeights weights;
};

std::vector<Rank> gathering_ranks(FingerprintBarrier::Form form, int ranks) {
  std::vector<Rank> all;
  for (int rank = 0; rank < ranks; ++rank)
    all.push_back(
        {FingerprintBarrier(form, rank, ranks), GatheredWeights(form, rank, ranks, 0.5 + rank)});
  return all;
}

// Whether anything was told.
bool tell_all(std::vector<Rank>& ranks) {
  bool told = false;
  for (int from = 0; from < static_cast<int>(ranks.size()); ++from) {
    Rank& sender = ranks[static_cast<std::size_t>(from)];
    while (const auto frame = sender.assent.next()) {
      Rank& receiver = ranks[static_cast<std::size_t>(frame->rank)];
      const auto heard = receiver.assent.hear(from, frame->round);
      EXPECT_TRUE(heard);
      EXPECT_TRUE(receiver.weights.put(*heard, sender.weights.told_in(*frame)));
      told = true;
    }
  }
  return told;
}

TEST(GatheredWeights, AreKnownToAllRanksByRankWhenTheAssentIsComplete) {
  for (const FingerprintBarrier::Form form :
       {FingerprintBarrier::Form::dissemination, FingerprintBarrier::Form::tree}) {
    for (int count = 2; count <= 33; ++count) {
      auto ranks = gathering_ranks(form, count);
      while (tell_all(ranks)) continue;
      std::vector<double> expected;
      for (int rank = 0; rank < count; ++rank) expected.push_back(0.5 + rank);
      for (const Rank& rank : ranks) {
        EXPECT_TRUE(rank.assent.is_complete());
        EXPECT_EQ(rank.weights.all(), expected) << count << " ranks";
      }
    }
  }
}

TEST(GatheredWeights, TakeNothingOfAnotherLength) {
  for (const FingerprintBarrier::Form form :
       {FingerprintBarrier::Form::dissemination, FingerprintBarrier::Form::tree}) {
    FingerprintBarrier assent(form, 0, 9);
    GatheredWeights weights(form, 0, 9, 1);
    const auto heard = assent.hear(form == FingerprintBarrier::Form::tree ? 1 : 8, 0);
    ASSERT_TRUE(heard);
    const std::vector<std::byte> longer(2 * sizeof(double)), none;
    EXPECT_FALSE(weights.put(*heard, longer));
    EXPECT_FALSE(weights.put(*heard, none));
  }
}

}  // namespace
}  // namespace paceline::collective
