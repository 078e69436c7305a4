#include "paceline/core/mesh/mesh.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/support/local_world.h"
#include "tests/support/sanitized.h"

namespace paceline::mesh {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Layout layout_of(const std::string& text, int ranks) {
  return Layout::parse(text, ranks).value();
}

// Every layout of some number of ranks, with the least and the most ranks that share experts,
// and 2.
std::vector<Layout> layouts(int ranks) {
  std::vector<Layout> all;
  for (int pp = 1; pp <= ranks; ++pp) {
    for (int dp = 1; pp * dp <= ranks; ++dp) {
      for (int cp = 1; pp * dp * cp <= ranks; ++cp) {
        const int others = pp * dp * cp;
        if (ranks % others != 0) continue;
        for (const int ep : std::set{1, dp * cp % 2 == 0 ? 2 : 1, dp * cp})
          all.push_back(layout_of(
              fmt::format("pp={},dp={},cp={},tp={},ep={}", pp, dp, cp, ranks / others, ep), ranks));
      }
    }
  }
  return all;
}

const int kMostRanks = test::kSanitized ? 16 : 64;

TEST(Layout, OfEveryShapeCutsTheWorldIntoGroupsAlongEachAxis) {
  const std::vector<Axes> every = {{Axis::pp},           {Axis::dp},          {Axis::cp},
                                   {Axis::tp},           {Axis::ep},          {Axis::edp},
                                   {Axis::dp, Axis::cp}, {Axis::pp, Axis::tp}};
  for (int ranks = 1; ranks <= kMostRanks; ++ranks) {
    for (const Layout& layout : layouts(ranks)) {
      for (const Axes& axes : every) {
        std::set<std::vector<int>> groups;
        for (int rank = 0; rank < ranks; ++rank) {
          const std::vector<int> group = layout.group(axes, rank);
          ASSERT_EQ(static_cast<int>(group.size()), layout.size(axes)) << layout.text();
          ASSERT_TRUE(std::ranges::binary_search(group, rank)) << layout.text();
          groups.insert(group);
        }
        ASSERT_EQ(static_cast<int>(groups.size()) * layout.size(axes), ranks)
            << layout.text() << ", " << axes.text() << ": each rank is in one group";
      }
    }
  }
}

TEST(Layout, TwoRanksShareAGroupOfOneAxisIfTheyDifferInItAlone) {
  for (int ranks = 1; ranks <= kMostRanks; ranks += ranks < 16 ? 1 : 8) {
    for (const Layout& layout : layouts(ranks)) {
      for (int one = 0; one < ranks; ++one) {
        std::vector<int> differing(static_cast<std::size_t>(ranks)), shared = differing;
        for (const Axis axis : {Axis::pp, Axis::dp, Axis::cp, Axis::tp}) {
          for (int other = 0; other < ranks; ++other)
            differing[static_cast<std::size_t>(other)] +=
                layout.coordinate(axis, one) != layout.coordinate(axis, other);
          for (const int other : layout.group({axis}, one))
            if (other != one) ++shared[static_cast<std::size_t>(other)];
        }
        for (int& count : differing) count = count == 1;
        ASSERT_EQ(shared, differing) << layout.text() << ", rank " << one;
      }
    }
  }
}

TEST(Layout, CoordinatesMakeTheRankWithTensorsInnermost) {
  for (int ranks = 1; ranks <= kMostRanks; ++ranks) {
    for (const Layout& layout : layouts(ranks)) {
      for (int rank = 0; rank < ranks; ++rank) {
        const auto at = [&](Axis axis) { return layout.coordinate(axis, rank); };
        const int q = at(Axis::cp) + layout.size({Axis::cp}) * at(Axis::dp);
        ASSERT_EQ(rank, at(Axis::tp) + layout.size({Axis::tp}) *
                                           (q + layout.size({Axis::dp, Axis::cp}) * at(Axis::pp)))
            << layout.text();
        ASSERT_EQ(q, at(Axis::ep) + layout.size({Axis::ep}) * at(Axis::edp)) << layout.text();
        const auto group = layout.group({Axis::ep}, rank);
        ASSERT_EQ(group[static_cast<std::size_t>(at(Axis::ep))], rank)
            << layout.text() << ": a place in the group is the coordinate";
      }
    }
  }
}

TEST(Layout, GroupsAreThoseOfTheSpecificationsModel) {
  const Layout layout = layout_of("pp=2,dp=2", 4);
  EXPECT_EQ(layout.group({Axis::pp}, 0), (std::vector{0, 2}));
  EXPECT_EQ(layout.group({Axis::dp}, 3), (std::vector{2, 3}));
  const Layout experts = layout_of("dp=4,tp=2,ep=2", 8);
  EXPECT_EQ(experts.group({Axis::ep}, 0), (std::vector{0, 2}));
  EXPECT_EQ(experts.group({Axis::edp}, 0), (std::vector{0, 4}));
  EXPECT_EQ(experts.text(), "dp=4,tp=2,ep=2");
  EXPECT_EQ(layout_of("tp=1", 1).text(), "dp=1");
  EXPECT_EQ(layout_of("tp=2,dp=3", 6), layout_of("dp=3,tp=2", 6)) << "the order is no matter";
}

TEST(Layout, WrongTextsAreToldWhatIsRight) {
  const auto refusal = [](const char* text, int ranks) {
    const auto layout = Layout::parse(text, ranks);
    return layout ? std::string("accepted") : layout.error().what;
  };
  EXPECT_THAT(refusal("dp=2,tp=2", 8),
              AllOf(HasSubstr("multiply to 4"), HasSubstr("the run has 8")));
  EXPECT_THAT(refusal("dp=2000000000,tp=2000000000", 4), HasSubstr("at least"));
  EXPECT_THAT(refusal("dp=2,tq=2", 4),
              AllOf(HasSubstr("'tq'"), HasSubstr("pp, dp, cp, tp and ep")));
  EXPECT_THAT(refusal("dp=2,dp=2", 4), HasSubstr("dp is given twice"));
  EXPECT_THAT(refusal("dp=0", 4), HasSubstr("dp=N"));
  EXPECT_THAT(refusal("dp", 4), HasSubstr("dp=N"));
  EXPECT_THAT(refusal("dp=4.5", 4), HasSubstr("whole number"));
  EXPECT_THAT(refusal("", 1), HasSubstr("''"));
  EXPECT_THAT(refusal("edp=2,dp=2", 2), HasSubstr("'edp'"));
  EXPECT_THAT(refusal("dp=4,ep=3", 4), AllOf(HasSubstr("ep=3"), HasSubstr("dp * cp = 4")));
}

TEST(Axes, AreReadInAnyOrderAndRefusedByName) {
  EXPECT_EQ(Axes::parse("cp,dp").value(), (Axes{Axis::dp, Axis::cp}));
  EXPECT_EQ(Axes::parse("cp,dp").value().text(), "dp,cp");
  EXPECT_THAT(Axes::parse("zz").error().what, AllOf(HasSubstr("'zz'"), HasSubstr("edp")));
  EXPECT_THAT(Axes::parse("ep,dp").error().what, HasSubstr("alone"));
}

}  // namespace

}  // namespace paceline::mesh

namespace paceline {
namespace {

using mesh::Axis;
using ::testing::HasSubstr;

TEST(DeviceMesh, EachGroupAddsUpItsOwnRanks) {
  for (const char* text : {"dp=2,tp=2,pp=2", "dp=4,cp=2,ep=4", "tp=8", "dp=8,ep=2"}) {
    test::run_ranks(8, [text](Job& job) {
      DeviceMesh mesh(job, text);
      for (const char* axes : {"pp", "dp", "cp", "tp", "ep", "edp", "dp,cp", "pp,tp"}) {
        const auto group = mesh.layout().group(mesh::Axes::parse(axes).value(), job.rank());
        double sum = 0;
        for (const int rank : group) sum += rank;
        EXPECT_EQ(mesh.group(axes).all_reduce(static_cast<double>(job.rank())), sum)
            << text << ", " << axes;
        EXPECT_EQ(mesh.size(axes), static_cast<int>(group.size()));
        EXPECT_EQ(mesh.group(axes).world_rank(mesh.rank(axes)), job.rank());
      }
      EXPECT_EQ(mesh.rank("tp"), mesh.layout().coordinate(Axis::tp, job.rank()));
    });
  }
}

TEST(DeviceMesh, HasNoOtherGroupsAndSaysWhichItHas) {
  test::run_ranks(2, [](Job& job) {
    DeviceMesh mesh(job, "dp=2");
    for (const char* axes : {"dp,tp", "yy"}) {
      try {
        mesh.group(axes);
        ADD_FAILURE() << axes;
      } catch (const Error& error) {
        EXPECT_EQ(error.fault(), Fault::misuse);
        EXPECT_THAT(error.what(), HasSubstr("tp"));
      }
    }
    EXPECT_THROW(DeviceMesh(job, "dp=3"), Error) << "on all ranks";
  });
}

TEST(DeviceMesh, TensorsOverSeveralHostsAreAWarning) {
  const LocalWorldOptions two_hosts = {.ranks_per_host = 2};
  ::testing::internal::CaptureStderr();
  test::run_ranks(4, two_hosts, [](Job& job) { DeviceMesh mesh(job, "dp=2,tp=2"); });
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  ::testing::internal::CaptureStderr();
  test::run_ranks(4, two_hosts, [](Job& job) { DeviceMesh mesh(job, "tp=4"); });
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("ranks 0, 1, 2, 3 share tensors"));
}

}  // namespace

}  // namespace paceline
