// Communicators over several hosts: ranks that share memory with their neighbours, and speak TCP
// with the others.
#include <gtest/gtest.h>

#include "tests/core/collective/worlds.h"

namespace paceline::collective::testing {
namespace {

constexpr std::string_view kHierarchical = "hierarchical";

void for_some_hosts(const std::function<void(const LocalWorldOptions&, int ranks)>& body) {
  for (const auto& [ranks, size] : {std::pair(1, 1), {2, 1}, {4, 2}, {5, 2}, {6, 3}})
    body({.ranks_per_host = size}, ranks);
}

TEST(CommunicatorHosts, HierarchicalAlgorithmsGiveWhatOthersDo) {
  for_some_hosts([](const LocalWorldOptions& hosts, int ranks) {
    LocalWorldOptions options = hosts;
    options.reproducible = false;  // some of these hosts make another tree
    run_ranks(ranks, options, [&](Job& job) {
      Communicator& world = job.world();
      for (const std::size_t count : {0, 1, 7, 1000, 70'001}) {
        for (const bool allocated : {false, true}) {
          Arena arena(job, (count + 100) * sizeof(float) * 4);
          const auto values = arena.take<float>(count, allocated);
          const auto right = [&](std::size_t i) {
            return expected<float>(ranks, ReduceOp::sum, i);
          };
          fill(values, world.rank());
          world.all_reduce(buffer_of(values), {.algorithm = kHierarchical}).wait();
          EXPECT_EQ(first_difference<float>(values, right), count);

          const auto mine =
              Partition::even(count, ranks).chunks[static_cast<std::size_t>(world.rank())];
          const auto part = arena.take<float>(mine.count, allocated);
          fill(values, world.rank());
          world
              .reduce_scatter(const_buffer_of(values), buffer_of(part),
                              {.algorithm = kHierarchical})
              .wait();
          const auto right_part = [&](std::size_t i) { return right(mine.offset + i); };
          EXPECT_EQ(first_difference<float>(part, right_part), mine.count);

          const auto all = arena.take<float>(count, allocated);
          world.all_gather(const_buffer_of(part), buffer_of(all), {.algorithm = kHierarchical})
              .wait();
          EXPECT_EQ(first_difference<float>(all, right), count);

          fill(values, world.rank());
          const int root = ranks - 1;
          world.broadcast(buffer_of(values), root, {.algorithm = kHierarchical}).wait();
          const auto of_root = [&](std::size_t i) { return value<float>(root, i); };
          EXPECT_EQ(first_difference<float>(values, of_root), count);
          EXPECT_TRUE(arena.guards_intact());
        }
      }
    });
  });
}

TEST(CommunicatorHosts, TheBitsAreThoseOfOneHostWhereTheTreeIs) {
  run_ranks(5, {.ranks_per_host = 2}, [&](Job& job) {
    std::vector<float> by_hosts(1000), by_all(1000);
    for (std::size_t i = 0; i < by_all.size(); ++i)
      by_hosts[i] = by_all[i] =
          1.0F / static_cast<float>((i + 3) * static_cast<std::size_t>(job.rank() + 1));
    job.world().all_reduce(buffer_of(by_hosts), {.algorithm = kHierarchical}).wait();
    job.world().all_reduce(buffer_of(by_all), {.algorithm = "direct"}).wait();
    EXPECT_EQ(by_hosts, by_all);
  });
}

TEST(CommunicatorHosts, ReproducibleRefusesAHierarchyWithAnotherTree) {
  run_ranks(6, {.ranks_per_host = 3}, [&](Job& job) {
    std::vector<float> values(10);
    const auto failure = failure_of(
        [&] { job.world().all_reduce(buffer_of(values), {.algorithm = kHierarchical}).wait(); });
    EXPECT_EQ(failure.fault, Fault::misuse);
    EXPECT_NE(failure.what.find("balanced tree"), std::string::npos) << failure.what;
    // The first two of each host: another group, other hosts, and the balanced tree.
    const auto pairs = job.world().subgroup(std::array{0, 1, 3, 4});
    if (pairs) pairs->all_reduce(buffer_of(values), {.algorithm = kHierarchical}).wait();
  });
}

}  // namespace
}  // namespace paceline::collective::testing
