#include "paceline/core/collective/call/assent.h"

#include <gtest/gtest.h>

#include <deque>

#include "paceline/core/base/seed.h"
#include "paceline/core/collective/building/balanced_tree.h"
#include "tests/core/collective/worlds.h"

namespace paceline::collective {
namespace {

struct OnTheWay {
  int from, to;
  std::uint32_t round;
};

TEST(Assent, AllKnowAfterLgFramesOfEachRankWhateverTheOrderAndNobodyBeforeAllHaveCalled) {
  SeededNumbers numbers(26);
  for (int ranks = 2; ranks <= 128; ++ranks) {
    std::vector<Assent> assents;
    std::vector<int> sent(static_cast<std::size_t>(ranks));
    std::vector<OnTheWay> way;
    const auto tell = [&](int rank) {
      while (const auto telling = assents[static_cast<std::size_t>(rank)].next()) {
        ++sent[static_cast<std::size_t>(rank)];
        way.push_back({rank, telling->rank, telling->round});
      }
    };
    for (int rank = 0; rank < ranks; ++rank) assents.emplace_back(rank, ranks);
    const int last = static_cast<int>(numbers.below(static_cast<std::uint64_t>(ranks)));
    for (int rank = 0; rank < ranks; ++rank) {
      if (rank != last) tell(rank);
    }
    const auto deliver_all = [&] {
      std::vector<OnTheWay> early;
      while (!way.empty()) {
        const auto pick = numbers.below(way.size());
        const OnTheWay one = way[pick];
        way.erase(way.begin() + static_cast<std::ptrdiff_t>(pick));
        if (one.to == last && sent[static_cast<std::size_t>(last)] == 0) {
          early.push_back(one);  // it has not called
          continue;
        }
        ASSERT_TRUE(assents[static_cast<std::size_t>(one.to)].hear(one.from, one.round));
        tell(one.to);
      }
      way = early;
    };
    deliver_all();
    for (const Assent& assent : assents) ASSERT_FALSE(assent.is_complete()) << ranks << " ranks";
    tell(last);
    deliver_all();
    for (const Assent& assent : assents) ASSERT_TRUE(assent.is_complete()) << ranks << " ranks";
    for (const int frames : sent) ASSERT_EQ(frames, tree_levels(ranks));
  }
}

TEST(Assent, ARoundIsHeardOnceAndOfOneRankAlone) {
  Assent assent(0, 5);
  EXPECT_FALSE(assent.hear(3, 0)) << "rank 4 tells of round 0";
  EXPECT_TRUE(assent.hear(4, 0));
  EXPECT_FALSE(assent.hear(4, 0));
  EXPECT_FALSE(assent.hear(4, 3)) << "there are three rounds";
}

TEST(Assent, ARankTellsAtMostTwoFramesARound) {
  using namespace testing;
  for (const int ranks : {2, 3, 7, 8, 9, 16, 20}) {
    run_ranks(ranks, kTcp, [&](Job& job) {
      Communicator& world = job.world();
      std::vector<float> values(100'000, 1.0F);
      const auto frames = [&](const auto& call) {
        const auto before = world.traffic().announcements;
        call();
        return static_cast<int>(world.traffic().announcements - before);
      };
      const int most = 2 * tree_levels(ranks);
      EXPECT_LE(frames([&] { world.barrier().wait(); }), most);
      EXPECT_LE(frames([&] { world.all_reduce(buffer_of(values)).wait(); }), most);
      EXPECT_LE(frames([&] { world.broadcast(buffer_of(values), ranks - 1).wait(); }), most);
      EXPECT_EQ(values.front(), static_cast<float>(ranks));
    });
  }
}

}  // namespace
}  // namespace paceline::collective
