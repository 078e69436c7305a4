#include "paceline/core/collective/call/members.h"

#include <gtest/gtest.h>

namespace paceline::collective {
namespace {

std::shared_ptr<membership::Generation> generation_of(int rank, int size) {
  return std::make_shared<membership::Generation>(
      membership::GenerationIdentity{.rank = rank, .size = size});
}

TEST(Members, OfTheWorldHaveTheirRanksThere) {
  const auto generation = generation_of(2, 4);
  const Members world(generation, Members::all_of(*generation));
  EXPECT_TRUE(world.is_world());
  EXPECT_EQ(world.rank(), 2);
  EXPECT_EQ(world.size(), 4);
  EXPECT_EQ(world.name(3), "rank 3");
  EXPECT_EQ(world.names({1, 3}), "ranks 1, 3");
}

TEST(Members, OfASubsetHaveTwoNumbersAndAreToldByBoth) {
  const Members group(generation_of(2, 6), {5, 2, 0});
  EXPECT_FALSE(group.is_world());
  EXPECT_EQ(group.rank(), 1);
  EXPECT_EQ(group.size(), 3);
  for (int member = 0; member < 3; ++member)
    EXPECT_EQ(group.member(group.world_rank(member)), member);
  for (const int stranger : {1, 3, 4}) EXPECT_EQ(group.member(stranger), -1);
  EXPECT_EQ(group.name(0), "rank 0 (rank 5 of the world)");
  EXPECT_EQ(group.names({0, 2}), "ranks 0, 2 (ranks 5, 0 of the world)");
  const Failure failure = group.failure(Fault::mismatch, "text", {0, 1});
  EXPECT_EQ(failure, (Failure{Fault::mismatch, "text", {5, 2}}))
      << "failures speak of ranks in the world";
}

TEST(Members, KnowTheirHostsAndShapeTellsThemWhereTheyMakeTwoLevels) {
  const auto generation = generation_of(1, 4);
  generation->set_hosts(
      {.of_ranks = {0, 0, 1, 1}, .pools = {{{0, 1}, 2}, {{2, 3}, 3}}, .share_memory = true});
  const Members world(generation, Members::all_of(*generation)), one_each(generation, {2, 1}),
      one_host(generation, {1, 0});
  EXPECT_EQ(world.topology(), topology::several_hosts({{0, 1}, {2, 3}}, {2, 3}));
  EXPECT_EQ(one_each.topology(), topology::several_hosts({{0}, {1}}, {3, 2}));
  EXPECT_EQ(one_host.topology(), topology::one_host(2, 2, topology::LinkClass::memory));
  EXPECT_EQ(world.shape().groups, (std::vector<std::vector<int>>{{0, 1}, {2, 3}}));
  EXPECT_TRUE(one_each.shape().groups.empty());
  EXPECT_TRUE(one_host.shape().groups.empty());
  EXPECT_EQ(one_each.shape().rank, 1);
  EXPECT_EQ(one_each.shape().ranks, 2);
}

TEST(Members, InAnotherOrderAreNotTheWorld) {
  const Members turned(generation_of(0, 2), {1, 0});
  EXPECT_FALSE(turned.is_world());
  EXPECT_EQ(turned.rank(), 1);
}

}  // namespace
}  // namespace paceline::collective
