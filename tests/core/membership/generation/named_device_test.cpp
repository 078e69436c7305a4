#include "paceline/core/membership/generation/named_device.h"

#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

#include "paceline/core/job/job_impl.h"
#include "paceline/core/job/local_world.h"

namespace paceline::membership {
namespace {

TEST(NamedDevice, IsKnownToAllOtherRanksOverAnyLink) {
  for (const bool share_memory : {true, false}) {
    std::vector<Job> jobs = make_local_world(3, {.share_memory = share_memory});
    name_device(*jobs[1].impl().reactor, jobs[1].impl().generation, "cuda:3");
    for (const std::size_t rank : {0U, 2U}) {
      const auto& [reactor, generation] =
          std::tie(jobs[rank].impl().reactor, jobs[rank].impl().generation);
      const Deadline deadline = Deadline::in(std::chrono::seconds(20));
      std::string known, other;
      while (known.empty() && !deadline.passed())
        reactor->run([&] { known = generation->device_of(1), other = generation->device_of(0); });
      EXPECT_EQ(known, " (on cuda:3)");
      EXPECT_EQ(other, "");
    }
  }
}

}  // namespace
}  // namespace paceline::membership
