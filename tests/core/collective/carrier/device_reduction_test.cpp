// all_reduce between devices that reach each other's memory, over doubles whose streams work as late
// as they may (tests/support/late_device.h). Work::order, too. Also covers
// paceline/core/collective/carrier/device_kernel_carrier.cpp and
// paceline/core/collective/group/device_buffers.cpp.
#include "paceline/core/collective/carrier/device_reduction.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <random>

#include "tests/core/collective/staging/on_device.h"
#include "tests/support/misuse.h"
#include "tests/support/nightly.h"
#include "tests/support/seed.h"

namespace paceline::collective::testing {
namespace {

using membership::DeviceTransport;
using test::LateDevices;
using ::testing::AllOf;
using ::testing::HasSubstr;

int reductions_of(LateDevices& devices) {
  int sum = 0;
  for (int i = 0; i < devices.count(); ++i) sum += devices.device(i).reductions();
  return sum;
}

// --- bits ----------------------------------------------------------------------------------------

struct Drawn {
  std::size_t count;
  ReduceOp op;
  Dtype dtype;
  bool is_in_place;
};

Drawn drawn_call(std::mt19937_64& draw) {
  Drawn drawn{};
  do {
    drawn.dtype = static_cast<Dtype>(1 + draw() % 10);
    drawn.op = static_cast<ReduceOp>(1 + draw() % 8);
  } while (!can_reduce(drawn.op, drawn.dtype));
  drawn.count = 1 + draw() % 3000;
  drawn.is_in_place = draw() % 2 == 0;
  return drawn;
}

// Values of which sums of a few are finite in each type.
std::vector<std::uint8_t> values_of(Dtype dtype, std::size_t count, std::mt19937_64& draw) {
  std::vector<std::uint8_t> bytes(count * size_of(dtype));
  for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(draw());
  if (!is_floating(dtype)) return bytes;
  for (std::size_t i = size_of(dtype) - 1; i < bytes.size(); i += size_of(dtype))
    bytes[i] = static_cast<std::uint8_t>((bytes[i] & 0x80) | 0x3c);
  return bytes;
}

enum class Way : std::uint8_t { host, staged, direct };

// Returns all that the calls of one seed put into the outputs. The stream writes the inputs, and reads the
// outputs behind the calls.
std::vector<std::uint8_t> results_of(std::uint64_t seed, LateDevices& devices, Job& job, Way way) {
  std::vector<std::uint8_t> results;
  std::mt19937_64 draw(seed), own(seed + 17 * static_cast<std::uint64_t>(job.rank() + 1));
  const int number = job.rank() % devices.count();
  auto& device = devices.device(number);
  const device::Stream stream = device.make_stream().value();
  const int calls = seed % 4 == 0 ? 3 : 1;
  for (int call = 0; call < calls; ++call) {
    const Drawn asked = drawn_call(draw);
    const bool waits = draw() % 2 == 0;
    const auto values = values_of(asked.dtype, asked.count, own);
    std::vector<std::uint8_t> in = values, out(values.size());
    const AllReduceOptions options{.op = asked.op};
    const auto as_buffer = [&](Buffer bytes) {
      return Buffer{bytes.data, asked.count, asked.dtype, bytes.memory};
    };
    if (way == Way::host) {
      auto& into = asked.is_in_place ? in : out;
      job.world().all_reduce(as_buffer(buffer_of(in)), as_buffer(buffer_of(into)), options).wait();
      results.insert(results.end(), into.begin(), into.end());
      continue;
    }
    const VectorOnDevice<std::uint8_t> first(device, values.size(), stream, number),
        other(device, values.size(), stream, number);
    const auto& into = asked.is_in_place ? first : other;
    device.give(stream, [&] { first.write(values); });
    const Work work =
        job.world().all_reduce(as_buffer(first.buffer()), as_buffer(into.buffer()), options);
    if (waits) work.wait();
    work.order(stream);
    device.give(stream, [&] { out = into.read(); });
    work.wait();
    device.finish(stream);
    results.insert(results.end(), out.begin(), out.end());
  }
  job.world().barrier().wait();
  device.end_stream(stream);
  return results;
}

// A list for each rank, which holds one of each seed: a new world for each takes longer.
using Results = std::vector<std::vector<std::vector<std::uint8_t>>>;
Results run_seeds(std::uint64_t first, int count, int ranks, int device_count, Way way) {
  Results results(static_cast<std::size_t>(ranks));
  LateDevices devices(first, device_count);
  const auto transport = way == Way::direct ? DeviceTransport::automatic : DeviceTransport::staged;
  run_with(devices, ranks, {.transport = transport}, [&](Job& job) {
    job.world().barrier().wait();  // the first call is never direct: pages are not known yet
    for (int i = 0; i < count; ++i) {
      results[static_cast<std::size_t>(job.rank())].push_back(
          results_of(first + static_cast<std::uint64_t>(i), devices, job, way));
    }
  });
  EXPECT_EQ(reductions_of(devices) > 0, way == Way::direct);
  return results;
}

TEST(DeviceReduction, HasTheBitsOfHostMemoryAndOfStagedCalls) {
  const int seeds = kSanitized ? 5 : test::is_nightly() ? 800 : 84;  // in each of 12 worlds
  for (int world = 0; world < 12; ++world) {
    const std::uint64_t seed = test::seed(4420) + 1000 * static_cast<std::uint64_t>(world);
    const int ranks = 2 + world % 4, device_count = 1 + world / 4;
    SCOPED_TRACE(fmt::format("seeds {} on, {} ranks on {} devices", seed, ranks, device_count));
    const Results expected = run_seeds(seed, seeds, ranks, device_count, Way::host);
    EXPECT_EQ(run_seeds(seed, seeds, ranks, device_count, Way::direct), expected);
    EXPECT_EQ(run_seeds(seed, seeds, ranks, device_count, Way::staged), expected);
  }
}

// Nothing else wakes a rank that sleeps while it waits for another one: it does not look for stalls.
TEST(DeviceReduction, RanksThatWaitForOthersAreWoken) {
  LateDevices devices(test::seed(4427));
  run_with(devices, 4, {.timeout = 5s, .stall_time = 600s}, [&](Job& job) {
    const OnDevice values(devices.device(0), 100, nullptr);
    values.write(std::vector<float>(100, 0));
    job.world().barrier().wait();
    for (int i = 0; i < 100; ++i) job.world().all_reduce(values.buffer()).wait();
    job.world().barrier().wait();
  });
}

// --- order ---------------------------------------------------------------------------------------

// A chain of calls and kernels, of which the processor waits for the last one alone.
TEST(DeviceReduction, AStreamThatIsOrderedBehindCallsNeedsNoWaiting) {
  for (const auto transport : {DeviceTransport::automatic, DeviceTransport::staged}) {
    for (int i = 0; i < (kSanitized ? 5 : 20); ++i) {
      const std::uint64_t seed = test::seed(4421) + static_cast<std::uint64_t>(i);
      const int ranks = 2 + i % 3;
      SCOPED_TRACE(fmt::format("seed {}, {} ranks", seed, ranks));
      LateDevices devices(seed);
      run_with(devices, ranks, {.transport = transport}, [&](Job& job) {
        auto& device = devices.device(0);
        const device::Stream stream = device.make_stream().value();
        const VectorOnDevice<std::int64_t> values(device, 50, stream);
        values.write(std::vector<std::int64_t>(50, 1));
        job.world().barrier().wait();
        std::int64_t expected = 1;
        Work last;
        for (int round = 0; round < 6; ++round) {
          last = job.world().all_reduce(values.buffer());
          last.order(stream);
          device.give(stream, [&] {
            for (std::size_t k = 0; k < 50; ++k) values.values()[k] += 1;
          });
          expected = expected * ranks + 1;
        }
        last.wait();
        device.finish(stream);
        EXPECT_EQ(values.read(), std::vector<std::int64_t>(50, expected));
        job.world().barrier().wait();
        device.end_stream(stream);
      });
    }
  }
}

TEST(DeviceReduction, OnlyCallsOnDevicesOrderStreams) {
  run_ranks(2, {.share_memory = false}, [](Job& job) {
    std::vector<float> values(100000);
    const Work work = job.world().all_reduce(buffer_of(values));
    if (!work.done()) {
      EXPECT_THAT(test::misuse_of([&] { work.order(nullptr); }),
                  AllOf(HasSubstr("all_reduce f32[100000] sum"), HasSubstr("call wait()")));
    }
    work.wait();
  });
}

// --- ranks that do not reach each other ----------------------------------------------------------

TEST(DeviceReduction, MemoryOutOfReachIsStagedFromThenOn) {
  LateDevices devices(test::seed(4422), 2);
  devices.device(1).keep_out_of_reach("no peer access");
  run_with(devices, 2, {}, [&](Job& job) {
    for (int i = 0; i < 5; ++i) {
      const OnDevice values(devices.device(job.rank()), 1000, nullptr, job.rank());
      values.write(std::vector<float>(1000, static_cast<float>(1 + job.rank())));
      job.world().all_reduce(values.buffer()).wait();
      EXPECT_EQ(values.read(), std::vector<float>(1000, 3));
    }
    job.world().barrier().wait();
  });
  EXPECT_EQ(reductions_of(devices), 0);
}

TEST(DeviceReduction, RanksWithHostMemoryGoTogetherWithRanksThatOfferTheirDevices) {
  for (const std::size_t count : {1U, 1000U, 100000U}) {
    for (const int ranks : {2, 3, 9}) {
      SCOPED_TRACE(fmt::format("{} elements, {} ranks", count, ranks));
      LateDevices devices(test::seed(4423));
      run_with(devices, ranks, {}, [&](Job& job) {
        job.world().barrier().wait();
        for (int i = 0; i < 4; ++i) {
          std::vector<float> values(count, 1);
          const OnDevice on_device(devices.device(0), count, nullptr);
          on_device.write(values);
          const bool is_on_device = (job.rank() + i) % 3 != 0;
          job.world().all_reduce(is_on_device ? on_device.buffer() : buffer_of(values)).wait();
          if (is_on_device) values = on_device.read();
          EXPECT_EQ(values, std::vector<float>(count, static_cast<float>(ranks)));
        }
      });
    }
  }
}

// --- ends ----------------------------------------------------------------------------------------

TEST(DeviceReduction, NobodyUsesTheBuffersOfACallThatFailed) {
  for (int i = 0; i < 20; ++i) {
    LateDevices devices(test::seed(4424) + static_cast<std::uint64_t>(i));
    run_with(devices, 3, {}, [&](Job& job) {
      auto& device = devices.device(0);
      const device::Stream stream = device.make_stream().value();
      auto values = std::make_unique<OnDevice>(device, 1000, stream);
      try {
        job.world().barrier().wait();
        const Work work = job.world().all_reduce(values->buffer());
        if (job.rank() == i % 3) job.world().abort("enough");
        work.wait();
      } catch (const Error& error) {
        EXPECT_THAT(error.what(), HasSubstr("enough"));
      }
      values.reset();  // a kernel that came later would use what is not there
      for (int k = 1; k <= 3; ++k) device.finish(reinterpret_cast<device::Stream>(k));
      device.finish(stream);
    });
    EXPECT_EQ(devices.device(0).late_uses(), 0);
  }
}

// Whichever rank's deadline comes first.
TEST(DeviceReduction, ADeviceThatDoesNotGoOnIsNamedAtTheDeadline) {
  for (const int hurried : {0, 1}) {
    LateDevices devices(test::seed(4425), 2);
    const OnDevice first(devices.device(0), 100, nullptr),
        second(devices.device(1), 100, nullptr, 1);
    std::latch one_has_called(1);
    run_with(devices, 2, {}, [&](Job& job) {
      const OnDevice& own = job.rank() == 0 ? first : second;
      auto& device = devices.device(job.rank());
      job.world().barrier().wait();
      if (job.rank() == 1) {
        device.hang(true);
        device.give(nullptr, [] {});
      }
      const bool is_hurried = job.rank() == hurried;
      if (is_hurried) one_has_called.wait();
      const Work work = job.world().all_reduce(own.buffer(), {.within = is_hurried ? 500ms : 60s});
      if (!is_hurried) one_has_called.count_down();
      const Failure failure = failure_of([&] { work.wait(); });
      EXPECT_EQ(failure.fault, Fault::timed_out);
      EXPECT_THAT(failure.what, AllOf(HasSubstr(fmt::format("deadline: rank {}", hurried)),
                                      HasSubstr("all_reduce f32[100] sum by device kernels"),
                                      HasSubstr("late:1")));
      device.hang(false);
    });
  }
}

TEST(DeviceReduction, ADeviceThatFailsIsNamedWithItsRankAndOperation) {
  LateDevices devices(test::seed(4426), 2);
  const OnDevice first(devices.device(0), 100, nullptr), second(devices.device(1), 100, nullptr, 1);
  run_with(devices, 2, {}, [&](Job& job) {
    const OnDevice& own = job.rank() == 0 ? first : second;
    job.world().all_reduce(own.buffer()).wait();
    job.world().barrier().wait();
    Failure failure{Fault::io, "", {}};
    if (job.rank() == 1) {
      devices.device(1).hang(true);  // it must not end the call before it breaks down
      const Work work = job.world().all_reduce(own.buffer());
      devices.device(1).break_down("an illegal address");
      failure = failure_of([&] { work.wait(); });
      devices.device(1).hang(false);
      devices.device(1).break_down("");
    } else {
      failure = failure_of([&] {
        job.world().all_reduce(own.buffer()).wait();
        job.world().barrier().wait();
      });
    }
    EXPECT_THAT(failure.what, AllOf(HasSubstr("rank 1"), HasSubstr("all_reduce f32[100] sum"),
                                    HasSubstr("late:1: an illegal address")));
    EXPECT_EQ(failure.ranks, std::vector{1});
  });
}

}  // namespace
}  // namespace paceline::collective::testing
