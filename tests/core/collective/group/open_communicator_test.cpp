#include "paceline/core/collective/group/open_communicator.h"

#include <cstring>

#include "paceline/core/job/job_impl.h"
#include "tests/core/collective/worlds.h"

namespace paceline::collective::testing {
namespace {

std::unique_ptr<Communicator> reversed_world(Job& job, std::uint32_t number) {
  std::vector<int> ranks = Members::all_of(*job.impl().generation);
  std::ranges::reverse(ranks);
  return open_communicator({.number = number,
                            .name = "reversed",
                            .reactor = job.impl().reactor,
                            .generation = job.impl().generation,
                            .world_ranks = ranks,
                            .timeout = 10s});
}

TEST(OpenCommunicator, RanksStandInTheOrderInWhichTheyAreGiven) {
  run_ranks(3, [](Job& job) {
    const auto group = reversed_world(job, 5);
    EXPECT_EQ(group->rank(), 2 - job.rank());
    EXPECT_EQ(group->world_rank(0), 2);
    EXPECT_EQ(group->name(), "reversed");
    std::vector<std::int64_t> own = {job.rank()}, all(3);
    group->all_gather(const_buffer_of(own), buffer_of(all)).wait();
    EXPECT_EQ(all, (std::vector<std::int64_t>{2, 1, 0}));
  });
}

TEST(OpenCommunicator, MemoryOfAnyGroupIsOnOfferToPeersOnTheSameHost) {
  run_ranks(4, [](Job& job) {
    const auto group = job.world().split(job.rank() % 2);
    const Allocation memory = group->allocate(1 << 16);
    EXPECT_EQ(memory.size(), 1u << 16);
    bool on_offer = false;
    job.impl().reactor->run(
        [&] { on_offer = job.impl().generation->segments().find(memory.bytes()).has_value(); });
    EXPECT_TRUE(on_offer);
    std::vector<float> ones(memory.size() / sizeof(float), 1);
    std::memcpy(memory.data(), ones.data(), memory.size());
    const Buffer buffer{memory.data(), ones.size(), Dtype::f32};
    group->all_reduce(buffer).wait();
    EXPECT_EQ(reinterpret_cast<const float*>(memory.data())[ones.size() - 1], 2.0F);
    group->barrier().wait();
  });
}

}  // namespace
}  // namespace paceline::collective::testing
