// When data moves (also covers paceline/core/collective/carrier/segment.h, request.h, and the
// memory that stores reach: paceline/core/collective/carrier/stored_outputs.h). That it is the
// right data: communicator_results_test.cpp and communicator_dtypes_test.cpp.
#include "paceline/core/collective/carrier/program_carrier.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "tests/core/collective/worlds.h"

namespace paceline::collective::testing {
namespace {

TEST(ProgramCarrier, NothingLongTravelsAndNoOutputIsWrittenBeforeAllHaveCalled) {
  for (const auto& options : {kSharedFast, kTcpFast}) {
    for (const std::string_view algorithm : {"direct", "binomial"}) {
      std::atomic<int> looked = 0;
      run_ranks(3, options, [&](Job& job) {
        constexpr std::size_t kCount = 1 << 18;
        Allocation memory = job.allocate(kCount * sizeof(float));
        const std::span<float> values{reinterpret_cast<float*>(memory.data()), kCount};
        const float own = static_cast<float>(job.rank()) + 1;
        std::ranges::fill(values, own);
        if (job.rank() == 2) {
          while (looked < 2) std::this_thread::yield();
        }
        const Work work = job.world().broadcast(buffer_of(values), 0, {.algorithm = algorithm});
        if (job.rank() != 2) {
          EXPECT_EQ(failure_of([&] { work.wait(Deadline::in(30ms)); }).fault, Fault::timed_out);
          EXPECT_EQ(job.world().traffic().bytes_sent, 0U);
          EXPECT_EQ(std::ranges::count(values, own), static_cast<std::ptrdiff_t>(kCount));
          ++looked;
        }
        work.wait(Deadline::in(5s));
        EXPECT_EQ(std::ranges::count(values, 1.0F), static_cast<std::ptrdiff_t>(kCount));
      });
    }
  }
}

TEST(ProgramCarrier, ShortMessagesGoAheadAndAreKept) {
  for (const auto& options : {kShared, kTcp}) {
    std::atomic<bool> looked = false;
    run_ranks(2, options, [&](Job& job) {
      std::vector<float> values(100, static_cast<float>(job.rank()) + 1);
      if (job.rank() == 1) {
        while (!looked) std::this_thread::yield();
      }
      const Work work = job.world().broadcast(buffer_of(values));
      if (job.rank() == 0) {
        EXPECT_EQ(failure_of([&] { work.wait(Deadline::in(20ms)); }).fault, Fault::timed_out);
        EXPECT_EQ(job.world().traffic().bytes_sent, 400U);
        looked = true;
      }
      work.wait(Deadline::in(5s));
      EXPECT_EQ(values, std::vector<float>(100, 1));
    });
  }
}

}  // namespace
}  // namespace paceline::collective::testing
