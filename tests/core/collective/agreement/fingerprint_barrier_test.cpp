#include "paceline/core/collective/agreement/fingerprint_barrier.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "paceline/core/base/seed.h"
#include "paceline/core/collective/building/balanced_tree.h"
#include "tests/core/collective/worlds.h"
#include "tests/support/seed.h"

namespace paceline::collective {
namespace {

struct OnTheWay {
  int from, to;
  std::uint32_t round;
};

constexpr FingerprintBarrier::Form kForms[] = {FingerprintBarrier::Form::dissemination,
                                               FingerprintBarrier::Form::tree};

// Ranks whose frames arrive in any order.
class Assents {
 public:
  Assents(FingerprintBarrier::Form form, int ranks, SeededNumbers& numbers)
      : has_called_(static_cast<std::size_t>(ranks)),
        told_(static_cast<std::size_t>(ranks)),
        numbers_(numbers) {
    for (int rank = 0; rank < ranks; ++rank) assents_.emplace_back(form, rank, ranks);
  }

  void call(int rank) {
    has_called_[static_cast<std::size_t>(rank)] = true;
    tell(rank);
  }

  // A rank that has not called keeps what it is told until later.
  void deliver_all() {
    std::vector<OnTheWay> early;
    while (!way_.empty()) {
      std::swap(way_[numbers_.below(way_.size())], way_.back());
      const OnTheWay one = way_.back();
      way_.pop_back();
      if (!has_called_[static_cast<std::size_t>(one.to)]) {
        early.push_back(one);
        continue;
      }
      ASSERT_TRUE(assents_[static_cast<std::size_t>(one.to)].hear(one.from, one.round));
      tell(one.to);
    }
    way_ = early;
  }

  const std::vector<FingerprintBarrier>& all() const { return assents_; }
  const std::vector<int>& told() const { return told_; }  // frames, by rank

 private:
  void tell(int rank) {
    while (const auto frame = assents_[static_cast<std::size_t>(rank)].next()) {
      ++told_[static_cast<std::size_t>(rank)];
      way_.push_back({rank, frame->rank, frame->round});
    }
  }

  std::vector<FingerprintBarrier> assents_;
  std::vector<bool> has_called_;
  std::vector<int> told_;
  std::vector<OnTheWay> way_;
  SeededNumbers& numbers_;
};

TEST(FingerprintBarrier, AllKnowWhateverTheOrderOfFramesAndNobodyBeforeAllHaveCalled) {
  SeededNumbers numbers(test::seed(26));
  for (const FingerprintBarrier::Form form : kForms) {
    for (int ranks = 2; ranks <= 128; ++ranks) {
      Assents assents(form, ranks, numbers);
      const int last = static_cast<int>(numbers.below(static_cast<std::uint64_t>(ranks)));
      for (int rank = 0; rank < ranks; ++rank) {
        if (rank != last) assents.call(rank);
      }
      assents.deliver_all();
      for (const FingerprintBarrier& assent : assents.all())
        ASSERT_FALSE(assent.is_complete()) << ranks << " ranks";
      assents.call(last);
      assents.deliver_all();
      for (const FingerprintBarrier& assent : assents.all())
        ASSERT_TRUE(assent.is_complete()) << ranks << " ranks";
    }
  }
}

TEST(FingerprintBarrier, TakesLgFramesOfEachRankOrTwoForEachEdgeOfATree) {
  SeededNumbers numbers(test::seed(27));
  for (int ranks = 2; ranks <= 128; ++ranks) {
    for (const FingerprintBarrier::Form form : kForms) {
      Assents assents(form, ranks, numbers);
      for (int rank = 0; rank < ranks; ++rank) assents.call(rank);
      assents.deliver_all();
      const std::vector<int>& told = assents.told();
      const int all = std::accumulate(told.begin(), told.end(), 0);
      EXPECT_EQ(all, form == FingerprintBarrier::Form::tree ? 2 * (ranks - 1)
                                                            : ranks * tree_levels(ranks));
      EXPECT_LE(*std::ranges::max_element(told), tree_levels(ranks)) << ranks << " ranks";
    }
  }
}

TEST(FingerprintBarrier, AFrameIsHeardOnceAndOfOneRankAlone) {
  FingerprintBarrier assent(FingerprintBarrier::Form::dissemination, 0, 5);
  EXPECT_FALSE(assent.hear(3, 0)) << "rank 4 tells of round 0";
  EXPECT_TRUE(assent.hear(4, 0));
  EXPECT_FALSE(assent.hear(4, 0));
  EXPECT_FALSE(assent.hear(4, 3)) << "there are three rounds";
  FingerprintBarrier leaf(FingerprintBarrier::Form::tree, 3, 5);
  EXPECT_FALSE(leaf.hear(0, 3)) << "rank 2 is its parent";
  EXPECT_FALSE(leaf.hear(2, 0)) << "its parent tells it on the way down alone";
  EXPECT_TRUE(leaf.hear(2, 3));
}

TEST(FingerprintBarrier, ARankTellsAtMostTwoFramesARound) {
  using namespace testing;
  constexpr int kTurns = 4;
  for (const auto& [ranks, processors] :
       {std::pair{2, 8}, {3, 8}, {7, 8}, {8, 8}, {9, 1}, {9, 20}, {16, 1}, {20, 20}, {40, 1}}) {
    if (kSanitized && ranks > 9) continue;
    const LocalWorldOptions options = {.share_memory = false,
                                       .processors = static_cast<double>(processors)};
    run_ranks(ranks, options, [&](Job& job) {
      Communicator& world = job.world();
      std::vector<float> values(100'000, 1.0F);
      // The least of some calls: one that takes half a second on a busy machine is told to all.
      const auto frames = [&](const auto& call) {
        int least = std::numeric_limits<int>::max();
        for (int turn = 0; turn < kTurns; ++turn) {
          const auto before = world.traffic().announcements;
          call();
          least = std::min(least, static_cast<int>(world.traffic().announcements - before));
        }
        return least;
      };
      const int most = 2 * tree_levels(world.size());
      EXPECT_LE(frames([&] { world.barrier().wait(); }), most);
      EXPECT_LE(frames([&] { world.all_reduce(buffer_of(values)).wait(); }), most);
      EXPECT_LE(frames([&] { world.broadcast(buffer_of(values), ranks - 1).wait(); }), most);
      EXPECT_EQ(values.front(), static_cast<float>(std::pow(world.size(), kTurns)));
      const auto each = static_cast<std::size_t>(world.size());
      std::vector<int> sent(100 * each, world.rank()), taken(sent);
      EXPECT_LE(frames([&] { world.all_to_all(const_buffer_of(sent), buffer_of(taken)).wait(); }),
                most);
      EXPECT_EQ(taken.back(), world.size() - 1);
    });
  }
}

}  // namespace
}  // namespace paceline::collective
