// Staged calls in pieces, over a double of a device whose streams work as late as they may
// (tests/support/late_device.h).
#include "paceline/core/collective/carrier/carrier_pieces.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>
#include <functional>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "paceline/core/job/job_impl.h"
#include "tests/core/collective/staging/on_device.h"
#include "tests/support/conformance.h"
#include "tests/support/nightly.h"
#include "tests/support/seed.h"

namespace paceline::collective::testing {
namespace {

using membership::DeviceTransport;
using test::LateDevice;
using test::LateDevices;
using ::testing::AllOf;
using ::testing::HasSubstr;
using Values = std::vector<std::uint8_t>;

constexpr std::size_t kPiece = 64 << 10;

DeviceWorld staged(bool share_memory, std::size_t piece = kPiece) {
  return {
      .share_memory = share_memory, .transport = DeviceTransport::staged, .staged_piece = piece};
}

// --- the claims ----------------------------------------------------------------------------------

class PiecewiseConformance : public ::testing::TestWithParam<std::tuple<bool, test::Claim>> {};

// The callers' memory counts as a device's.
TEST_P(PiecewiseConformance, Holds) {
  const auto& [share_memory, claim] = GetParam();
  for (const int ranks : kSanitized ? std::vector{3} : std::vector{2, 3, 5}) {
    SCOPED_TRACE(fmt::format("{} ranks", ranks));
    LateDevices devices(test::seed(4481));
    devices.device(0).let_host_memory_pass(true);
    DeviceWorld world = staged(share_memory, 16 << 10);
    world.reproducible = false;
    world.all_on_device = true;
    run_with(devices, ranks, world, [&claim = claim](Job& job) { claim.check(job, job.world()); });
    EXPECT_EQ(devices.device(0).registered(), 0U);
    EXPECT_EQ(devices.device(0).streams(), 0);
    EXPECT_EQ(devices.device(0).live_events(), 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Of, PiecewiseConformance,
                         ::testing::Combine(::testing::Bool(),
                                            ::testing::ValuesIn(test::conformance().begin(),
                                                                test::conformance().end())),
                         [](const auto& one) {
                           return fmt::format("{}_{}", std::get<0>(one.param) ? "Shm" : "Tcp",
                                              std::get<1>(one.param).name);
                         });

// --- bits ----------------------------------------------------------------------------------------

// Values of which sums of a few are finite in each type.
Values drawn_values(Dtype dtype, std::size_t count, std::mt19937_64& draw) {
  constexpr std::size_t kPeriodBytes = 4096 + 8;
  Values bytes(count * size_of(dtype));
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = i < kPeriodBytes ? static_cast<std::uint8_t>(draw()) : bytes[i - kPeriodBytes];
  if (!is_floating(dtype)) return bytes;
  for (std::size_t i = size_of(dtype) - 1; i < bytes.size(); i += size_of(dtype))
    bytes[i] = static_cast<std::uint8_t>((bytes[i] & 0x80) | 0x3c);
  return bytes;
}

// One operation of a rank; `makes` calls it with an input and an output of so many elements.
struct Asked {
  Dtype dtype = Dtype::f32;
  std::size_t input = 0, output = 0;  // elements
  bool is_in_place = false;
  std::function<Work(Communicator&, ConstBuffer, Buffer)> makes;
};

// Returns what the call leaves in the output: buffers of the host, or those of a device, which a
// stream that works as late as it may writes and reads.
Values result_of(const Asked& asked, LateDevice* device, Job& job, std::mt19937_64& draw) {
  Values input = drawn_values(asked.dtype, asked.input, draw);
  const std::size_t bytes = asked.output * size_of(asked.dtype);
  const auto typed = [&](Buffer buffer, std::size_t count) {
    return Buffer{buffer.data, count, asked.dtype, buffer.memory};
  };
  if (device == nullptr) {
    Values output(bytes, 7);
    Values& into = asked.is_in_place ? input : output;
    asked
        .makes(job.world(), typed(buffer_of(input), asked.input),
               typed(buffer_of(into), asked.output))
        .wait();
    return into;
  }
  const device::Stream stream = device->make_stream().value();
  const VectorOnDevice<std::uint8_t> in(*device, input.size(), stream);
  const VectorOnDevice<std::uint8_t> out(*device, bytes, stream);
  const auto& into = asked.is_in_place ? in : out;
  Values read;
  device->give(stream, [&] {
    out.write(Values(bytes, 7));
    in.write(input);
  });
  const Work work =
      asked.makes(job.world(), typed(in.buffer(), asked.input), typed(into.buffer(), asked.output));
  work.order(stream);
  device->give(stream, [&] { read = into.read(); });
  work.wait();
  device->finish(stream);
  device->end_stream(stream);
  return read;
}

std::vector<Asked> drawn_calls(std::mt19937_64& draw, Dtype dtype, std::size_t count, int ranks) {
  const auto all = static_cast<std::size_t>(ranks);
  ReduceOp op = ReduceOp::sum;
  do op = static_cast<ReduceOp>(1 + draw() % 8);
  while (!can_reduce(op, dtype));
  const int root = static_cast<int>(draw() % all);
  const bool in_place = draw() % 2 == 0;
  const std::size_t part = count / all + 1;
  return {
      {dtype, count, count, in_place,
       [=](Communicator& group, ConstBuffer in, Buffer out) {
         return group.all_reduce(in, out, {.op = op});
       }},
      {dtype, count, count, true,
       [=](Communicator& group, ConstBuffer, Buffer out) { return group.broadcast(out, root); }},
      {dtype, part, part * all, false,
       [](Communicator& group, ConstBuffer in, Buffer out) { return group.all_gather(in, out); }},
      {dtype, part * all, part, false,
       [=](Communicator& group, ConstBuffer in, Buffer out) {
         return group.reduce_scatter(in, out, {.op = op});
       }},
  };
}

// The results of one rank.
std::vector<Values> results_of(std::uint64_t seed, std::size_t count, LateDevice* device,
                               Job& job) {
  std::vector<Values> results;
  std::mt19937_64 draw(seed), own(seed + 17 * static_cast<std::uint64_t>(job.rank() + 1));
  for (const Dtype dtype : {Dtype::boolean, Dtype::u8, Dtype::i8, Dtype::i16, Dtype::i32,
                            Dtype::i64, Dtype::f16, Dtype::bf16, Dtype::f32, Dtype::f64}) {
    const auto calls = drawn_calls(draw, dtype, count / size_of(dtype), job.world().size());
    if (test::is_nightly()) {
      for (const Asked& asked : calls) results.push_back(result_of(asked, device, job, own));
    } else {
      results.push_back(result_of(calls[draw() % calls.size()], device, job, own));
    }
  }
  return results;
}

// "result 3: byte 70 of 131064 is 5, not 7"; empty: they are the same.
std::string difference_of(const std::vector<Values>& results, const std::vector<Values>& right) {
  if (results.size() != right.size()) return "their numbers";
  for (std::size_t i = 0; i < right.size(); ++i) {
    if (results[i].size() != right[i].size()) return fmt::format("the size of result {}", i);
    const auto [is, be] = std::ranges::mismatch(results[i], right[i]);
    if (be != right[i].end()) {
      return fmt::format("result {}: byte {} of {} is {}, not {}", i, be - right[i].begin(),
                         right[i].size(), *is, *be);
    }
  }
  return {};
}

// The sizes lie around the ends of pieces, and of the parts of a board.
TEST(StagedPieces, HaveTheBitsOfHostMemoryInAllTypes) {
  for (int ranks = 2; ranks <= (kSanitized ? 3 : 5); ++ranks) {
    for (const bool share_memory : {true, false}) {
      SCOPED_TRACE(fmt::format("{} ranks by {}", ranks, share_memory ? "shm" : "tcp"));
      LateDevices devices(test::seed(4472));
      DeviceWorld world = staged(share_memory);
      world.reproducible = (ranks % 2 == 0) == share_memory;
      run_with(devices, ranks, world, [&](Job& job) {
        for (const std::size_t bytes : {kPiece, kPiece + 8, 2 * kPiece - 8, 2 * kPiece, 4 * kPiece,
                                        5 * kPiece + 16, 9 * kPiece + 8}) {
          devices.device(0).be_eager(bytes % 16 == 8 || bytes == 4 * kPiece);
          const std::uint64_t seed = test::seed(4473) + bytes;
          EXPECT_EQ(difference_of(results_of(seed, bytes, &devices.device(0), job),
                                  results_of(seed, bytes, nullptr, job)),
                    "")
              << bytes << " bytes, rank " << job.rank() << " of " << ranks << " by "
              << (share_memory ? "shm" : "tcp");
        }
      });
    }
  }
}

// Ranks on devices, and of these in pieces of other lengths, go together with ranks on the host.
TEST(StagedPieces, AreARanksOwnAffair) {
  for (const bool share_memory : {true, false}) {
    for (const int ranks : {2, 3, 5}) {
      SCOPED_TRACE(fmt::format("{} ranks by {}", ranks, share_memory ? "shm" : "tcp"));
      LateDevices devices(test::seed(4474));
      run_ranks(ranks, {.share_memory = share_memory}, [&](Job& job) {
        const int rank = job.rank();
        job::use_devices(job, devices, false, DeviceTransport::staged, 16384U << rank);
        LateDevice* const device = rank == 1 ? nullptr : &devices.device(0);
        for (const std::size_t bytes : {kPiece, 3 * kPiece + 8, 9 * kPiece + 16}) {
          devices.device(0).be_eager(bytes % 16 == 8);
          EXPECT_EQ(difference_of(results_of(bytes, bytes, device, job),
                                  results_of(bytes, bytes, nullptr, job)),
                    "");
        }
      });
    }
  }
}

// --- overlap -------------------------------------------------------------------------------------

constexpr std::size_t kBoardPiece = 256 << 10;  // no shorter ones are summed up together

// While the device holds the copies of later pieces back, sums of the first ones are on it.
TEST(StagedPieces, SumsAreBackBeforeAllInputsHaveCome) {
  struct Case {
    bool share_memory;
    std::string_view algorithm;
  };
  for (const auto& [share_memory, algorithm] : {Case{true, {}}, Case{false, {}}}) {
    LateDevices devices(test::seed(4475), 2);
    run_with(devices, 2, staged(share_memory, kBoardPiece), [&](Job& job) {
      constexpr std::size_t kCount = 32 * kBoardPiece / sizeof(float);
      LateDevice& device = devices.device(job.rank());
      const OnDevice input(device, kCount, nullptr, job.rank());
      const OnDevice output(device, kCount, nullptr, job.rank());
      input.write(std::vector<float>(kCount, 1));
      output.write(std::vector<float>(kCount, 7));
      job.world().barrier().wait();
      device.allow_copies_to_host(4);  // of two pieces, which lie in two chunks
      const Work work = job.world().all_reduce(input.buffer(), output.buffer(),
                                               {.algorithm = std::string(algorithm)});
      const auto sums = [&] { return std::ranges::count(output.read(), 2.0F); };
      const Deadline deadline = Deadline::in(30s);
      while (sums() == 0 && !deadline.passed()) {
        failure_of([&] { work.wait(Deadline::in(1ms)); });
        device.work_off();
      }
      EXPECT_GT(sums(), 0);
      EXPECT_LE(sums(), static_cast<std::ptrdiff_t>(kCount / 2));
      EXPECT_FALSE(work.done());
      device.allow_copies_to_host(~std::uint64_t{0});
      work.wait();
      EXPECT_EQ(output.read(), std::vector<float>(kCount, 2));
    });
  }
}

// No piece comes for longer than an idle group is looked at.
TEST(StagedPieces, ACallWhoseInputComesLateGoesOn) {
  for (const bool share_memory : {true, false}) {
    LateDevices devices(test::seed(4482), 2);
    run_with(devices, 2, staged(share_memory, kBoardPiece), [&](Job& job) {
      LateDevice& device = devices.device(job.rank());
      const OnDevice values(device, 8 * kBoardPiece / sizeof(float), nullptr, job.rank());
      values.write(std::vector<float>(values.count, 1));
      job.world().barrier().wait();
      device.allow_copies_to_host(0);
      const Work sum = job.world().all_reduce(values.buffer());
      const Work barrier = job.world().barrier();
      for (int looks = 0; looks < 100; ++looks)  // of some hundred turns each
        EXPECT_EQ(failure_of([&] { sum.wait(Deadline::in(1ms)); }).fault, Fault::timed_out);
      device.allow_copies_to_host(~std::uint64_t{0});
      sum.wait(Deadline::in(20s));
      barrier.wait(Deadline::in(20s));
      EXPECT_EQ(values.read(), std::vector<float>(values.count, 2));
    });
  }
}

// A kernel that the caller's stream has still to run reads the output as it was, in all its pieces.
TEST(StagedPieces, AnOutputChangesAfterWhatItsStreamWasGivenBefore) {
  for (const bool share_memory : {true, false}) {
    LateDevices devices(test::seed(4476));
    run_with(devices, 2, staged(share_memory), [&](Job& job) {
      constexpr std::size_t kCount = 8 * kBoardPiece / sizeof(float);
      LateDevice& device = devices.device(0);
      const device::Stream one = device.make_stream().value(), other = device.make_stream().value();
      const OnDevice input(device, kCount, one), output(device, kCount, other);
      for (int i = 0; i < 3; ++i) {
        output.write(std::vector<float>(kCount, 7));
        std::vector<float> before;
        device.give(one, [&] { input.write(std::vector<float>(kCount, 1)); });
        device.give(other, [&] { before = output.read(); });
        job.world().all_reduce(input.buffer(), output.buffer()).wait();
        device.finish(other);
        EXPECT_EQ(before, std::vector<float>(kCount, 7));
        EXPECT_EQ(output.read(), std::vector<float>(kCount, 2));
      }
      job.world().barrier().wait();
      device.end_stream(one);
      device.end_stream(other);
    });
  }
}

TEST(StagedPieces, LaterCallsRegisterAndMakeNothing) {
  for (const bool share_memory : {true, false}) {
    LateDevices devices(test::seed(4477), 2);
    run_with(devices, 2, staged(share_memory), [&](Job& job) {
      LateDevice& device = devices.device(job.rank());
      const OnDevice values(device, 10 * kPiece, nullptr, job.rank());
      values.write(std::vector<float>(values.count, 0));
      const auto reduce = [&] { job.world().all_reduce(values.buffer()).wait(); };
      reduce();
      job.world().barrier().wait();
      const auto registered = device.registered();
      const int events = device.live_events(), streams = device.streams();
      for (int i = 0; i < 5; ++i) reduce();
      EXPECT_EQ(device.registered(), registered);
      EXPECT_EQ(device.live_events(), events);
      EXPECT_EQ(device.streams(), streams);
    });
  }
}

// --- ends ----------------------------------------------------------------------------------------

TEST(StagedPieces, ADeviceThatHangsInTheMiddleIsNamedAtTheDeadline) {
  for (const bool share_memory : {true, false}) {
    LateDevices devices(test::seed(4478), 2);
    const OnDevice memory[] = {{devices.device(0), 8 * kBoardPiece, nullptr, 0},
                               {devices.device(1), 8 * kBoardPiece, nullptr, 1}};
    run_with(devices, 2, staged(share_memory, kBoardPiece), [&](Job& job) {
      const OnDevice& values = memory[job.rank()];
      LateDevice& device = devices.device(job.rank());
      values.write(std::vector<float>(values.count, 1));
      job.world().barrier().wait();
      if (job.rank() == 1) device.allow_copies_to_host(4);
      const auto within = job.rank() == 1 ? 500ms : 60s;
      const Failure failure =
          failure_of([&] { job.world().all_reduce(values.buffer(), {.within = within}).wait(); });
      EXPECT_EQ(failure.fault, Fault::timed_out);
      EXPECT_THAT(failure.what, AllOf(HasSubstr("late:1"), HasSubstr("input to the host")));
      EXPECT_EQ(failure.ranks, std::vector{1}) << failure.what;
      device.allow_copies_to_host(~std::uint64_t{0});
    });
  }
}

TEST(StagedPieces, ADeviceThatFailsInTheMiddleIsNamedWithItsRankAndOperation) {
  for (const bool share_memory : {true, false}) {
    LateDevices devices(test::seed(4480), 2);
    std::barrier called(2);  // a rank that calls later is told of the failure at once
    const OnDevice memory[] = {{devices.device(0), 8 * kBoardPiece, nullptr, 0},
                               {devices.device(1), 8 * kBoardPiece, nullptr, 1}};
    run_with(devices, 2, staged(share_memory, kBoardPiece), [&](Job& job) {
      const OnDevice& values = memory[job.rank()];
      LateDevice& device = devices.device(job.rank());
      values.write(std::vector<float>(values.count, 1));
      job.world().barrier().wait();
      if (job.rank() == 1) device.allow_copies_to_host(4);
      const Work work = job.world().all_reduce(values.buffer());
      called.arrive_and_wait();
      failure_of([&] { work.wait(Deadline::in(50ms)); });
      if (job.rank() == 1) device.break_down("an illegal address");
      const Failure failure = failure_of([&] { work.wait(); });
      EXPECT_EQ(failure.ranks, std::vector{1});
      EXPECT_THAT(failure.what, AllOf(HasSubstr("rank 1"), HasSubstr("all_reduce f32[2097152] sum"),
                                      HasSubstr("late:1: an illegal address")));
      device.break_down("");
      device.allow_copies_to_host(~std::uint64_t{0});
    });
  }
}

TEST(StagedPieces, NobodyUsesTheBuffersOfACallThatFailed) {
  for (const bool share_memory : {true, false}) {
    LateDevices devices(test::seed(4479), 2);
    run_with(devices, 2, staged(share_memory, kBoardPiece), [&](Job& job) {
      LateDevice& device = devices.device(job.rank());
      auto memory = std::make_unique<OnDevice>(device, 8 * kBoardPiece, nullptr, job.rank());
      memory->write(std::vector<float>(memory->count, 1));
      job.world().barrier().wait();
      device.allow_copies_to_host(4);
      const Work work = job.world().all_reduce(memory->buffer());
      const auto is_partly_back = [&] { return std::ranges::count(memory->read(), 2.0F) > 0; };
      const Deadline deadline = Deadline::in(30s);
      while (job.rank() == 1 && !is_partly_back() && !deadline.passed()) {
        failure_of([&] { work.wait(Deadline::in(1ms)); });
        device.work_off();
      }
      // The thread that drives waits for the copies, and abort() may drive.
      const std::jthread later([&] {
        while (!job.impl().generation->is_failing() && !deadline.passed())
          std::this_thread::yield();
        for (const Deadline moment = Deadline::in(20ms); !moment.passed();)
          std::this_thread::yield();
        device.allow_copies_to_host(~std::uint64_t{0});
      });
      if (job.rank() == 1) job.world().abort("enough");
      const Failure failure = failure_of([&] { work.wait(); });
      EXPECT_THAT(failure.what, HasSubstr("enough"));
      memory.reset();  // a copy that came later would write where nothing is
      device.work_off();
    });
    for (const int rank : {0, 1}) EXPECT_EQ(devices.device(rank).late_uses(), 0);
  }
}

}  // namespace
}  // namespace paceline::collective::testing
