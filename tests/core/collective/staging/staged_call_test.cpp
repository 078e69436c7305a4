// Calls whose buffers lie in a device's memory, over a double whose streams work as late as they
// may (tests/support/late_device.h). Covers all of staging/.
#include "paceline/core/collective/staging/staged_call.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <latch>
#include <thread>

#include "paceline/core/collective/staging/staged_calls.h"
#include "paceline/core/collective/staging/staging_area.h"
#include "tests/core/collective/staging/on_device.h"
#include "tests/support/conformance.h"
#include "tests/support/late_device.h"
#include "tests/support/nightly.h"
#include "tests/support/seed.h"

namespace paceline::collective::testing {
namespace {

using test::LateDevice;
using test::LateDevices;
using ::testing::AllOf;
using ::testing::HasSubstr;

// --- the claims ----------------------------------------------------------------------------------

struct Way {
  const char* name;
  bool share_memory;
  membership::DeviceTransport transport;
};

class StagedConformance : public ::testing::TestWithParam<std::tuple<Way, test::Claim>> {};

// The callers' memory counts as a device's.
TEST_P(StagedConformance, Holds) {
  const auto& [way, claim] = GetParam();
  for (const int ranks : kSanitized ? std::vector{3} : std::vector{2, 3, 5}) {
    SCOPED_TRACE(fmt::format("{} ranks", ranks));
    LateDevices devices(test::seed(4401));
    devices.device(0).let_host_memory_pass(true);
    run_with(devices, ranks,
             {.share_memory = way.share_memory,
              .reproducible = false,
              .all_on_device = true,
              .transport = way.transport},
             [&claim = claim](Job& job) { claim.check(job, job.world()); });
    EXPECT_EQ(devices.device(0).registered(), 0U);
    EXPECT_EQ(devices.device(0).streams(), 0);
    EXPECT_EQ(devices.device(0).live_events(), 0);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Of, StagedConformance,
    ::testing::Combine(::testing::Values(Way{"Direct", true,
                                             membership::DeviceTransport::automatic},
                                         Way{"Shm", true, membership::DeviceTransport::staged},
                                         Way{"Tcp", false, membership::DeviceTransport::staged}),
                       ::testing::ValuesIn(test::conformance().begin(), test::conformance().end())),
    [](const auto& one) {
      return fmt::format("{}_{}", std::get<0>(one.param).name, std::get<1>(one.param).name);
    });

// --- streams -------------------------------------------------------------------------------------

std::vector<float> drawn(std::mt19937_64& draw, std::size_t count) {
  std::vector<float> values(count);
  for (float& value : values) value = std::normal_distribution<float>()(draw);
  return values;
}

// Worlds in which many seeds are tried one after the other, because a new world for each takes
// longer than its calls.
struct Seeds {
  std::uint64_t first = 0;
  int count = 0;
};

// Each rank's stream writes the inputs and reads the outputs of several calls, which are in flight
// together, as late as it may. Returns what the streams have read.
std::vector<float> read_of_calls(std::uint64_t seed, LateDevice& device, Job& job, bool on_device) {
  std::vector<float> seen;
  const int ranks = job.world().size();
  std::mt19937_64 draw(seed), own_draw(seed + 17 * static_cast<std::uint64_t>(job.rank() + 1));
  const device::Stream stream = device.make_stream().value();
  for (int round = 0; round < 3; ++round) {
    const auto count = std::uniform_int_distribution<std::size_t>(1, 3000)(draw);
    const int root = std::uniform_int_distribution<int>(0, ranks - 1)(draw);
    const std::vector<float> values = drawn(own_draw, count);
    const auto all = count * static_cast<std::size_t>(ranks);
    if (!on_device) {
      std::vector<float> sum = values, told = values, gathered(all);
      const Work works[] = {job.world().all_reduce(buffer_of(sum)),
                            job.world().broadcast(buffer_of(told), root),
                            job.world().all_gather(const_buffer_of(values), buffer_of(gathered))};
      for (const Work& work : works) work.wait();
      for (const auto* one : {&sum, &told, &gathered})
        seen.insert(seen.end(), one->begin(), one->end());
      continue;
    }
    const OnDevice sum(device, count, stream), told(device, count, stream),
        input(device, count, stream), gathered(device, all, stream);
    for (const OnDevice* one : {&sum, &told, &input})
      device.give(stream, [=] { one->write(values); });
    const Work works[] = {job.world().all_reduce(sum.buffer()),
                          job.world().broadcast(told.buffer(), root),
                          job.world().all_gather(input.buffer(), gathered.buffer())};
    for (const Work& work : works) work.wait();
    for (const OnDevice* one : {&sum, &told, &gathered}) {
      const auto values_read = one->read();
      seen.insert(seen.end(), values_read.begin(), values_read.end());
    }
  }
  job.world().barrier().wait();
  device.finish(stream);
  device.end_stream(stream);
  return seen;
}

// A list for each rank, which holds one of each seed.
std::vector<std::vector<std::vector<float>>> run_calls(const Seeds& seeds, int ranks,
                                                       bool on_device, bool share_memory) {
  std::vector<std::vector<std::vector<float>>> read(static_cast<std::size_t>(ranks));
  LateDevices devices(seeds.first);
  run_with(devices, ranks, {.share_memory = share_memory}, [&](Job& job) {
    for (int i = 0; i < seeds.count; ++i) {
      read[static_cast<std::size_t>(job.rank())].push_back(read_of_calls(
          seeds.first + static_cast<std::uint64_t>(i), devices.device(0), job, on_device));
    }
  });
  return read;
}

TEST(StagedCalls, HaveTheBitsOfHostMemoryHoweverLateStreamsAre) {
  constexpr int kEach = 25;
  const int worlds = test::is_brief() ? 8 : 40, count = test::is_brief() ? 2 : kEach;
  for (int i = 0; i < worlds; ++i) {
    const Seeds seeds{test::seed(4400) + static_cast<std::uint64_t>(kEach * i), count};
    const int ranks = 2 + i % 4;
    const bool share_memory = i / 4 % 2 == 0;
    SCOPED_TRACE(fmt::format("{} seeds from {}, {} ranks", seeds.count, seeds.first, ranks));
    ASSERT_EQ(run_calls(seeds, ranks, true, share_memory),
              run_calls(seeds, ranks, false, share_memory));
  }
}

template <typename T>
std::vector<T> all_reduced(LateDevices& devices, Job& job, ReduceOp op, bool on_device) {
  std::vector<T> values(1000);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<T>(i * 31 + static_cast<std::size_t>(job.rank() + 1) * 101);
  if (!on_device) {
    job.world().all_reduce(buffer_of(values), {.op = op}).wait();
    return values;
  }
  const VectorOnDevice<T> memory(devices.device(0), values.size(), nullptr);
  memory.write(values);
  job.world().all_reduce(memory.buffer(), {.op = op}).wait();
  return memory.read();
}

TEST(StagedCalls, SumShortIntegersAndCombineBits) {
  LateDevices devices(test::seed(4401));
  for (const bool share_memory : {true, false}) {
    run_with(devices, 3, {.share_memory = share_memory}, [&](Job& job) {
      const auto agree = [&]<typename T>(ReduceOp op, T) {
        EXPECT_EQ(all_reduced<T>(devices, job, op, true), all_reduced<T>(devices, job, op, false))
            << name_of(op) << " of " << name_of(dtype_of<T>());
      };
      for (const ReduceOp op : {ReduceOp::sum, ReduceOp::product, ReduceOp::min, ReduceOp::max,
                                ReduceOp::band, ReduceOp::bor, ReduceOp::bxor}) {
        agree(op, std::int16_t{});
        agree(op, std::uint8_t{});
        agree(op, std::int64_t{});
      }
    });
  }
}

TEST(StagedCalls, AllToAllMayBeInPlace) {
  LateDevices devices(test::seed(4401));
  for (const bool share_memory : {true, false}) {
    for (const int ranks : {2, 3, 5}) {
      run_with(devices, ranks, {.share_memory = share_memory}, [&](Job& job) {
        LateDevice& device = devices.device(0);
        const device::Stream stream = device.make_stream().value();
        const auto all = static_cast<std::size_t>(ranks), part = std::size_t{700};
        // Part r of rank s holds 10 s + r.
        std::vector<float> values(all * part), wanted(all * part);
        for (std::size_t i = 0; i < values.size(); ++i) {
          const auto own = static_cast<std::size_t>(job.rank());
          values[i] = static_cast<float>(10 * own + i / part);
          wanted[i] = static_cast<float>(10 * (i / part) + own);
        }
        const OnDevice memory(device, values.size(), stream);
        device.give(stream, [&] { memory.write(values); });
        job.world().all_to_all(memory.buffer(), memory.buffer()).wait();
        EXPECT_EQ(memory.read(), wanted);
        const std::vector<std::size_t> counts(all, part);
        job.world().all_to_all(memory.buffer(), counts, memory.buffer(), counts).wait();
        EXPECT_EQ(memory.read(), values) << "back again";
        job.world().barrier().wait();
        device.finish(stream);
        device.end_stream(stream);
      });
    }
  }
}

// A kernel that the caller's stream has still to run reads the output as it was.
TEST(StagedCalls, AnOutputChangesAfterWhatItsStreamWasGivenBefore) {
  LateDevices devices(test::seed(4401));
  run_with(devices, 2, {}, [&](Job& job) {
    LateDevice& device = devices.device(0);
    const device::Stream stream = device.make_stream().value();
    const OnDevice input(device, 100, stream), output(device, 100, stream);
    input.write(std::vector<float>(100, 1));
    output.write(std::vector<float>(100, 7));
    std::vector<float> before;
    device.give(stream, [&] { before = output.read(); });
    job.world().all_reduce(input.buffer(), output.buffer()).wait();
    EXPECT_EQ(before, std::vector<float>(100, 7));
    EXPECT_EQ(output.read(), std::vector<float>(100, 2));
    job.world().barrier().wait();
    device.end_stream(stream);
  });
}

// The same where input and output belong to two streams.
TEST(StagedCalls, AnOutputChangesAfterWhatAnotherStreamWasGivenBefore) {
  for (const auto transport :
       {membership::DeviceTransport::staged, membership::DeviceTransport::automatic}) {
    LateDevices devices(test::seed(4401));
    run_with(devices, 2, {.transport = transport}, [&](Job& job) {
      LateDevice& device = devices.device(0);
      const device::Stream one = device.make_stream().value(), other = device.make_stream().value();
      const OnDevice input(device, 100, one), output(device, 100, other);
      input.write(std::vector<float>(100, 1));
      job.world().barrier().wait();
      for (int i = 0; i < 5; ++i) {
        output.write(std::vector<float>(100, 7));
        std::vector<float> before;
        device.give(other, [&] { before = output.read(); });
        job.world().all_reduce(input.buffer(), output.buffer()).wait();
        device.finish(other);
        EXPECT_EQ(before, std::vector<float>(100, 7));
        EXPECT_EQ(output.read(), std::vector<float>(100, 2));
      }
      job.world().barrier().wait();
      device.end_stream(one);
      device.end_stream(other);
    });
  }
}

TEST(StagedCalls, GoTogetherWithRanksWhoseBuffersLieOnTheHost) {
  for (const std::size_t count : {1U, 100U, 100000U}) {
    for (const int ranks : {2, 3, 8}) {
      SCOPED_TRACE(fmt::format("{} elements, {} ranks", count, ranks));
      LateDevices devices(test::seed(4401));
      std::vector<std::vector<float>> sums(static_cast<std::size_t>(ranks));
      run_with(devices, ranks, {}, [&](Job& job) {
        std::mt19937_64 draw(static_cast<std::uint64_t>(job.rank()));
        std::vector<float> values = drawn(draw, count);
        std::vector<float>& sum = sums[static_cast<std::size_t>(job.rank())];
        if (job.rank() % 2 == 0) {
          const OnDevice memory(devices.device(0), count, nullptr);
          memory.write(values);
          job.world().all_reduce(memory.buffer()).wait();
          sum = memory.read();
          return;
        }
        job.world().all_reduce(buffer_of(values)).wait();
        sum = values;
      });
      for (const auto& sum : sums) EXPECT_EQ(sum, sums[0]);
    }
  }
}

TEST(StagedCalls, AreInFlightUntilTheirOutputIsBackAndNoLonger) {
  LateDevices devices(test::seed(4401));
  run_with(devices, 1, {}, [&](Job& job) {
    const OnDevice memory(devices.device(0), 100, nullptr);
    job.world().all_reduce(memory.buffer()).wait();
    const auto in_flight = job.world().traffic().in_flight;
    EXPECT_GT(in_flight.count(), 0);
    EXPECT_EQ(job.world().traffic().in_flight, in_flight);
  });
}

// --- places --------------------------------------------------------------------------------------

TEST(StagingArea, TakesAPlaceAgainWhenTheDeviceHasLetGoOfIt) {
  LateDevice device(test::seed(4401));
  run_ranks(1, {}, [&](Job& job) {
    StagingArea area(device, [&](std::size_t bytes) { return job.allocate(bytes); });
    auto first = area.take(100);
    const std::byte* const at = first->memory.data();
    device.give(area.down(), [] {});
    first->here->record(area.down()).value();
    device.hang(true);
    area.give_back(std::move(first));
    auto second = area.take(100);
    EXPECT_NE(second->memory.data(), at);
    device.hang(false);
    device.finish(area.down());
    auto third = area.take(100);
    EXPECT_EQ(third->memory.data(), at);
    area.give_back(std::move(second));
    area.give_back(std::move(third));
  });
}

// --- ends ----------------------------------------------------------------------------------------

TEST(StagedCalls, ADeviceThatDoesNotGoOnIsNamedAtTheDeadline) {
  LateDevices devices(test::seed(4401));
  devices.device(0).hang(true);
  const OnDevice memory(devices.device(0), 100, nullptr);  // which the late copy still reads
  run_with(devices, 1, {.timeout = 300ms}, [&](Job& job) {
    devices.device(0).give(nullptr, [] {});
    const Failure failure = failure_of([&] { job.world().all_reduce(memory.buffer()).wait(); });
    EXPECT_EQ(failure.fault, Fault::timed_out);
    EXPECT_THAT(failure.what, AllOf(HasSubstr("all_reduce f32[100] sum"), HasSubstr("late:0"),
                                    HasSubstr("input to the host")));
    devices.device(0).hang(false);
  });
}

TEST(StagedCalls, ACallBehindOneThatHangsFailsAtItsOwnDeadline) {
  LateDevices devices(test::seed(4401));
  devices.device(0).hang(true);
  const OnDevice memory(devices.device(0), 100, nullptr);
  run_with(devices, 1, {}, [&](Job& job) {
    devices.device(0).give(nullptr, [] {});
    std::vector<float> values(10);
    const Work first = job.world().all_reduce(memory.buffer());
    const Work second = job.world().all_reduce(buffer_of(values), {.within = 300ms});
    const Failure failure = failure_of([&] { second.wait(); });
    EXPECT_EQ(failure.fault, Fault::timed_out);
    EXPECT_THAT(failure.what, AllOf(HasSubstr("all_reduce f32[10] sum"), HasSubstr("its device")));
    devices.device(0).hang(false);
  });
}

TEST(StagedCalls, ADeviceThatFailsEndsTheCallWithItsText) {
  LateDevices devices(test::seed(4401));
  run_with(devices, 2, {}, [&](Job& job) {
    const OnDevice memory(devices.device(0), 100, nullptr);
    job.world().all_reduce(memory.buffer()).wait();
    job.world().barrier().wait();
    if (job.rank() == 0) {
      devices.device(0).break_down("an illegal address");
      const Failure failure = failure_of([&] { job.world().all_reduce(memory.buffer()).wait(); });
      EXPECT_THAT(failure.what, HasSubstr("late:0: an illegal address"));
      devices.device(0).break_down("");
    }
  });
}

TEST(StagedCalls, NobodyUsesTheBuffersOfACallThatFailed) {
  LateDevices devices(test::seed(4401));
  run_with(devices, 2, {}, [&](Job& job) {
    auto memory = std::make_unique<OnDevice>(devices.device(0), 100000, nullptr);
    if (job.rank() == 1) return job.world().abort("enough");
    const Failure failure = failure_of([&] { job.world().all_reduce(memory->buffer()).wait(); });
    EXPECT_THAT(failure.what, HasSubstr("enough"));
    memory.reset();  // a copy that came later would write where nothing is
    devices.device(0).finish(nullptr);
  });
  EXPECT_EQ(devices.device(0).late_uses(), 0);
}

// Work that a stream is given behind a call may use the call's buffers anew.
TEST(StagedCalls, StreamsBehindACallThatFailedGoOnWhenItsBuffersAreQuiet) {
  LateDevices devices(test::seed(4401), 2);
  std::latch have_given(2);
  run_with(devices, 2, {.transport = membership::DeviceTransport::staged}, [&](Job& job) {
    LateDevice& device = devices.device(job.rank());
    const OnDevice memory(device, 1000, nullptr, job.rank());
    job.world().barrier().wait();
    device.allow_copies_to_host(0);
    const device::Stream stream = device.make_stream().value();
    const Work work = job.world().all_reduce(memory.buffer());
    work.order(stream);
    std::atomic<bool> is_quiet = false, went_on_too_early = false;
    device.give(stream, [&] { went_on_too_early = !is_quiet; });
    have_given.arrive_and_wait();
    {
      const std::jthread later([&] {
        for (const Deadline moment = Deadline::in(100ms); !moment.passed();) device.work_off();
        is_quiet = true;
        device.allow_copies_to_host(~std::uint64_t{0});
      });
      if (job.rank() == 1) job.world().abort("enough");
      EXPECT_THAT(failure_of([&] { work.wait(); }).what, HasSubstr("enough"));
    }
    device.work_off();
    EXPECT_FALSE(went_on_too_early);
  });
}

TEST(StagedCalls, MemoryThatAStreamBehindACallStillReadsIsKept) {
  LateDevices devices(test::seed(4401));
  LateDevice& device = devices.device(0);
  std::atomic<std::uint32_t> word = 0;
  const MutableBytes own(reinterpret_cast<std::byte*>(&word), sizeof word);
  ASSERT_TRUE(device.register_host(own));
  std::size_t registered = 0;
  std::jthread later;
  run_with(devices, 1, {.transport = membership::DeviceTransport::staged}, [&](Job& job) {
    const device::Stream late = device.make_stream().value(), soon = device.make_stream().value();
    const OnDevice memory(device, 1000, nullptr);
    device.allow_copies_to_host(0);
    const Work work = job.world().all_reduce(memory.buffer());
    ASSERT_TRUE(device.hold_until(late, word, 1));
    work.order(late);
    work.order(soon);
    device.allow_copies_to_host(~std::uint64_t{0});
    work.wait();
    later = std::jthread([&] {  // the job ends meanwhile
      for (const Deadline moment = Deadline::in(100ms); !moment.passed();)
        std::this_thread::yield();
      registered = device.registered();
      word = 1;
    });
  });
  later.join();
  EXPECT_EQ(registered, 2U);
  EXPECT_EQ(device.registered(), 1U) << "it is let go when the stream has gone on";
  device.unregister_host(own);
}

// --- refusals ------------------------------------------------------------------------------------

TEST(StagedCalls, MemoryThatIsNotTheDevicesIsRefused) {
  LateDevices devices(test::seed(4401), 2);
  run_with(devices, 1, {}, [&](Job& job) {
    std::vector<float> host(10);
    const auto refusal = [&](Memory memory, float* data) {
      const Buffer buffer{reinterpret_cast<std::byte*>(data), 10, Dtype::f32, memory};
      return failure_of([&] { job.world().all_reduce(buffer).wait(); });
    };
    const Failure on_host = refusal({.kind = Memory::Kind::cuda, .device = 0}, host.data());
    EXPECT_EQ(on_host.fault, Fault::misuse);
    EXPECT_THAT(on_host.what, AllOf(HasSubstr("late:0"), HasSubstr("it lies on the host")));
    const OnDevice memory(devices.device(0), 10, nullptr);
    auto* const data = reinterpret_cast<float*>(memory.memory.data());
    EXPECT_THAT(refusal({.kind = Memory::Kind::cuda, .device = 2}, data).what,
                AllOf(HasSubstr("device 2"), HasSubstr("sees 2 devices")));
    EXPECT_THAT(refusal({.kind = Memory::Kind::cuda, .device = 1}, data).what, HasSubstr("late:1"));
    const ConstBuffer input{
        memory.memory.data(), 10, Dtype::f32, {.kind = Memory::Kind::cuda, .device = 0}};
    EXPECT_THAT(failure_of([&] { job.world().all_reduce(input, buffer_of(host)).wait(); }).what,
                HasSubstr("both must be in that of one device"));
  });
}

}  // namespace
}  // namespace paceline::collective::testing
