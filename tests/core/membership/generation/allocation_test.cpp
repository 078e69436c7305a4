#include "paceline/core/membership/generation/allocation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "paceline/core/job/job_impl.h"
#include "paceline/core/job/local_world.h"

namespace paceline {
namespace {

TEST(Allocation, IsZeroedPageAlignedAndExactlyAsLongAsAskedFor) {
  Job job = init();
  for (const std::size_t bytes : {0u, 1u, 1000u, 1u << 20}) {
    const Allocation memory = job.allocate(bytes);
    EXPECT_EQ(memory.size(), bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.data()) % 4096, 0u);
    EXPECT_TRUE(std::ranges::all_of(memory.bytes(), [](std::byte b) { return b == std::byte{}; }));
  }
  EXPECT_EQ(Allocation().size(), 0u);
}

bool is_shared(Job& job, Bytes bytes) {
  bool found = false;
  job.impl().reactor->run(
      [&] { found = job.impl().generation->segments().find(bytes).has_value(); });
  return found;
}

TEST(Allocation, OfARankThatIsAloneIsItsOwn) {
  Job job = init();
  const Allocation memory = job.allocate(4096);
  EXPECT_FALSE(is_shared(job, memory.bytes()));
  std::vector<Job> apart = make_local_world(2, {.share_memory = false});
  const Allocation of_one = apart[0].allocate(4096);
  EXPECT_FALSE(is_shared(apart[0], of_one.bytes()));
}

TEST(Allocation, IsKnownToTheGenerationAsLongAsItLives) {
  std::vector<Job> jobs = make_local_world(2);
  Job& job = jobs[0];
  const auto known = [&](Bytes bytes) { return is_shared(job, bytes); };
  Allocation one = job.allocate(4096), two = job.allocate(4096);
  const Bytes first = one.bytes(), second = two.bytes();
  EXPECT_TRUE(known(first));
  EXPECT_TRUE(known(second));
  {
    const Allocation taken = std::move(one);
    EXPECT_TRUE(known(first));
  }
  EXPECT_FALSE(known(first));
  two = Allocation();
  EXPECT_FALSE(known(second));
}

}  // namespace
}  // namespace paceline
