// Groups out of groups (covers paceline/core/collective/group/communicator.h: split, subgroup).
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <unordered_map>

#include "paceline/core/base/seed.h"
#include "tests/core/collective/worlds.h"

namespace paceline::collective::testing {
namespace {

using ::testing::HasSubstr;

// The sum over a group of its members' ranks in the world.
float sum_of(Communicator& group) {
  std::vector<float> value(1, static_cast<float>(group.world_rank(group.rank())));
  group.all_reduce(buffer_of(value)).wait();
  return value[0];
}

TEST(Split, PutsRanksOfOneColorTogetherInTheOrderOfTheirKeys) {
  for (const auto& options : {kShared, kTcp}) {
    run_ranks(5, options, [](Job& job) {
      const int color = job.rank() % 2;
      const auto group = job.world().split(color, -job.rank());
      ASSERT_NE(group, nullptr);
      EXPECT_EQ(group->name(), fmt::format("world.1.{}", color));
      const std::vector<int> wanted = color == 0 ? std::vector{4, 2, 0} : std::vector{3, 1};
      ASSERT_EQ(group->size(), static_cast<int>(wanted.size()));
      for (int rank = 0; rank < group->size(); ++rank)
        EXPECT_EQ(group->world_rank(rank), wanted[static_cast<std::size_t>(rank)]);
      EXPECT_EQ(group->world_rank(group->rank()), job.rank());
      EXPECT_EQ(sum_of(*group), color == 0 ? 6 : 4);
      EXPECT_EQ(sum_of(job.world()), 10) << "the parent goes on";
      std::vector<float> from(1, static_cast<float>(group->rank()));
      group->broadcast(buffer_of(from), group->size() - 1).wait();
      EXPECT_EQ(from[0], static_cast<float>(group->size() - 1)) << "roots are ranks of the group";
    });
  }
}

TEST(Split, WithoutAColorGivesNoGroup) {
  run_ranks(3, [](Job& job) {
    const auto group = job.world().split(job.rank() == 1 ? -1 : 7);
    EXPECT_EQ(group == nullptr, job.rank() == 1);
    EXPECT_EQ(group ? sum_of(*group) : 2, 2);
  });
}

TEST(Split, GroupsWithCommonMembersDoNotMix) {
  for (const auto& options : {kShared, kTcp}) {
    run_ranks(6, options, [](Job& job) {
      // Rows and columns of a 2 x 3 grid, in flight together, with equal tags and sequence numbers.
      const auto row = job.world().split(job.rank() / 3),
                 column = job.world().split(job.rank() % 3);
      for (int i = 0; i < 50; ++i) {
        std::vector<float> by_row(1000, 1), by_column(1000, 1), world(10, 1), in(1),
            out(1, static_cast<float>(job.rank()));
        const Work a = row->all_reduce(buffer_of(by_row)),
                   b = column->all_reduce(buffer_of(by_column));
        const Work c = job.world().all_reduce(buffer_of(world));
        const Work sent = column->send(const_buffer_of(out), 1 - column->rank()),
                   got = column->recv(buffer_of(in), 1 - column->rank());
        std::vector<float> row_in(1);
        const Work row_sent = row->send(const_buffer_of(out), (row->rank() + 1) % 3),
                   row_got = row->recv(buffer_of(row_in), (row->rank() + 2) % 3);
        Work::all_of({a, b, c, sent, got, row_sent, row_got}).wait();
        ASSERT_EQ(by_row[999], 3);
        ASSERT_EQ(by_column[999], 2);
        ASSERT_EQ(world[9], 6);
        ASSERT_EQ(in[0], static_cast<float>((job.rank() + 3) % 6));
        ASSERT_EQ(row_in[0], static_cast<float>(row->world_rank((row->rank() + 2) % 3)));
      }
    });
  }
}

TEST(Split, OfASplitAndAgainAndAgainLeavesNothingBehind) {
  run_ranks(4, [](Job& job) {
    const auto half = job.world().split(job.rank() / 2);
    for (int i = 0; i < 300; ++i) {
      const auto alone = half->split(half->rank());
      ASSERT_EQ(alone->size(), 1);
      ASSERT_EQ(sum_of(*alone), static_cast<float>(job.rank()));
      const auto turned = half->split(0, -half->rank());
      ASSERT_EQ(sum_of(*turned), job.rank() < 2 ? 1 : 5);
    }
  });
}

// Two colors, of the world's first split and of its second, whose groups have the same number: by
// number_of in split.cpp, whose numbers have 31 bits.
std::pair<int, int> colors_of_one_number() {
  const auto number = [](std::uint64_t split, int color) {
    const std::uint64_t mixed = mix(mix(mix(0, split), static_cast<std::uint64_t>(color)), 0);
    return static_cast<std::uint32_t>(mixed >> 32) | 1;
  };
  std::unordered_map<std::uint32_t, int> of_first;
  for (int color = 0; color < 200'000; ++color) of_first.emplace(number(1, color), color);
  for (int color = 0;; ++color) {
    if (const auto found = of_first.find(number(2, color)); found != of_first.end())
      return {found->second, color};
  }
}

TEST(Split, ANumberThatOneRankHasInUseIsTakenByNone) {
  const auto [first, second] = colors_of_one_number();
  for (const auto& options : {kShared, kTcp}) {
    run_ranks(3, options, [&, first = first, second = second](Job& job) {
      const auto two = job.world().split(job.rank() < 2 ? first : -1);
      const auto before = job.world().traffic().operations;
      const auto all = job.world().split(second);
      // One message gathers all wishes, then each number that is tried takes one question.
      ASSERT_EQ(job.world().traffic().operations - before, 1U + 2U)
          << "the numbers are the same no longer: this test knows how number_of makes them";
      for (int i = 0; i < 20; ++i) {
        if (two) {
          ASSERT_EQ(sum_of(*two), 1);
        }
        ASSERT_EQ(sum_of(*all), 3);
      }
    });
  }
}

TEST(Subgroup, IsTheListInItsOrder) {
  run_ranks(4, [](Job& job) {
    const auto group = job.world().subgroup(std::vector{3, 0, 2});
    ASSERT_EQ(group == nullptr, job.rank() == 1);
    if (!group) return;
    EXPECT_EQ(group->world_rank(0), 3);
    EXPECT_EQ(group->world_rank(group->rank()), job.rank());
    EXPECT_EQ(sum_of(*group), 5);
  });
}

TEST(Subgroup, RefusesListsThatDifferOrMakeNoSense) {
  for (int odd = 0; odd < 3; ++odd) {
    run_ranks(3, [odd](Job& job) {
      EXPECT_EQ(failure_of([&] {
                  (void)job.world().subgroup(std::vector{0, 3});
                }).fault,
                Fault::misuse);
      EXPECT_EQ(failure_of([&] {
                  (void)job.world().subgroup(std::vector{0, 1, 0});
                }).fault,
                Fault::misuse);
      const auto failure = failure_of([&] {
        (void)job.world().subgroup(job.rank() == odd ? std::vector{0, 1} : std::vector{1, 0});
      });
      EXPECT_EQ(failure.fault, Fault::mismatch);
      EXPECT_THAT(failure.what, HasSubstr("name other ranks"));
      job.world().barrier().wait();
    });
  }
}

TEST(Split, MismatchesTellTheGroupAndBothNumbers) {
  for (const auto& options : {kShared, kTcp}) {
    run_ranks(4, options, [](Job& job) {
      std::unique_ptr<Communicator> group;
      std::vector<float> values(2000, 1);
      const auto failure =
          failure_of([&] {  // a slow rank hears of it while it is still in the split
            group = job.world().split(job.rank() == 0 ? -1 : 0, -job.rank());
            if (!group) job.world().barrier().wait();
            else if (job.rank() == 3)
              group->all_reduce(buffer_of(values), {.op = ReduceOp::max}).wait();
            else group->all_reduce(buffer_of(values)).wait();
            job.world().barrier().wait();
          });
      EXPECT_EQ(failure.fault, Fault::mismatch) << failure.what;
      EXPECT_THAT(failure.what, HasSubstr("in operation 1 of group 'world.1.0' rank 0 (rank 3 of "
                                          "the world) called all_reduce f32[2000] max"));
      EXPECT_THAT(failure.ranks, ::testing::Contains(3)) << "ranks of the world";
    });
  }
}

TEST(Split, ACallInAnotherGroupIsNamedAtTheDeadline) {
  std::atomic<int> failed = 0;
  run_ranks(2, [&failed](Job& job) {
    const auto a = job.world().split(0), b = job.world().split(0);
    job.world().barrier().wait();  // no rank is in a split any more
    // Crossed: each waits in another group, which no check of one group can see.
    Communicator& group = job.rank() == 0 ? *a : *b;
    std::vector<float> values(10, 1);
    const auto failure =
        failure_of([&] { group.all_reduce(buffer_of(values), {.within = 1s}).wait(); });
    ++failed;
    EXPECT_EQ(failure.fault, Fault::timed_out) << failure.what;
    EXPECT_THAT(failure.what, HasSubstr("has called all_reduce f32[10] sum by"));
    EXPECT_THAT(failure.what, HasSubstr("instead"));
    EXPECT_THAT(failure.what, HasSubstr("'world.1.0'"));
    EXPECT_THAT(failure.what, HasSubstr("'world.2.0'"));
  });
}

}  // namespace
}  // namespace paceline::collective::testing
