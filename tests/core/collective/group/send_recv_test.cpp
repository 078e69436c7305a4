// Sends and recvs of buffers in a device's memory, over a double whose streams work as late as they
// may (tests/support/late_device.h); those of the host: carrier/point_to_point_test.cpp.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <functional>
#include <latch>
#include <map>
#include <memory>
#include <thread>
#include <tuple>

#include "paceline/core/base/seed.h"
#include "paceline/core/collective/group/late_sends.h"
#include "paceline/core/job/job_impl.h"
#include "tests/core/collective/staging/on_device.h"
#include "tests/support/late_device.h"
#include "tests/support/mortal_link.h"
#include "tests/support/nightly.h"
#include "tests/support/seed.h"

namespace paceline::collective::testing {
namespace {

using test::LateDevice;
using test::LateDevices;
using test::Life;
using ::testing::AllOf;
using ::testing::HasSubstr;

// --- order and bits ------------------------------------------------------------------------------

constexpr int kOnHost = -1;

// The floats of one send or recv, on the host or on a device.
class TransferSide {
 public:
  TransferSide(LateDevices& devices, const std::vector<device::Stream>& streams, int place,
               std::size_t count)
      : on_host_(count, -1) {
    if (place == kOnHost) return;
    device_ = &devices.device(place);
    there_ = std::make_unique<OnDevice>(*device_, count, streams[static_cast<std::size_t>(place)],
                                        place);
    there_->write(on_host_);
  }
  Buffer buffer() { return there_ ? there_->buffer() : buffer_of(on_host_); }
  // Through its stream, as late as that may.
  void write(const std::vector<float>& values) {
    if (there_)
      device_->give(there_->stream, [there = there_.get(), values] { there->write(values); });
    else on_host_ = values;
  }
  void spoil() {
    std::ranges::fill(on_host_, -2.0F);
    if (there_) there_->write(on_host_);
  }
  std::vector<float> read() const { return there_ ? there_->read() : on_host_; }

 private:
  std::vector<float> on_host_;
  LateDevice* device_ = nullptr;
  std::unique_ptr<OnDevice> there_;
};

constexpr std::uint32_t kTags = 2, kTagOfAny = 7;
constexpr int kMessages = 2;  // from each rank to each with each tag

// The message with this number from one rank to another with a tag.
std::vector<float> message_of(std::uint64_t seed, int from, int to, std::uint32_t tag, int number) {
  std::uint64_t drawn = seed;
  for (const auto part : {from, to, static_cast<int>(tag), number})
    drawn = mix(drawn, static_cast<std::uint64_t>(part));
  SeededNumbers numbers(drawn);
  const std::size_t count = numbers.below(16) == 0 ? 17'000 + numbers.below(20'000)  // not carried
                                                   : numbers.below(1500);
  std::vector<float> values(tag == kTagOfAny ? 100 : count);
  for (float& value : values) value = static_cast<float>(numbers.below(1 << 20));
  return values;
}

// All sends and recvs of one rank, in an order that follows from the seed, all in flight together.
class StagedExchange {
 public:
  StagedExchange(LateDevices& devices, Job& job, std::uint64_t seed)
      : devices_(devices),
        job_(job),
        seed_(seed),
        numbers_(mix(seed, static_cast<std::uint64_t>(job.rank()))) {
    for (int i = 0; i < devices.count(); ++i)
      streams_.push_back(devices.device(i).make_stream().value());
    const auto add = [&](bool sends, int peer, std::uint32_t tag, int messages) {
      for (int number = 0; number < messages; ++number)
        lanes_[{sends, peer, tag}].push_back(number);
    };
    for (int peer = 0; peer < job.world().size(); ++peer) {
      for (std::uint32_t tag = 0; tag < kTags; ++tag) {
        add(true, peer, tag, kMessages);
        add(false, peer, tag, kMessages);
      }
    }
    add(true, 0, kTagOfAny, kMessages);
    if (job.rank() == 0) add(false, kAnyRank, kTagOfAny, kMessages * job.world().size());
  }

  void run() {
    while (!lanes_.empty()) {
      const auto lane =
          std::next(lanes_.begin(), static_cast<std::ptrdiff_t>(numbers_.below(lanes_.size())));
      const auto [sends, peer, tag] = lane->first;
      const int number = lane->second.front();
      if (sends) send(peer, tag, number);
      else recv(peer, tag, number);
      lane->second.pop_front();
      if (lane->second.empty()) lanes_.erase(lane);
      if (numbers_.below(4) == 0) std::this_thread::yield();
    }
    for (const auto& check : checks_) check();
    EXPECT_EQ(heard_.size(), static_cast<std::size_t>(job_.rank() == 0 ? job_.world().size() : 0));
    job_.world().barrier().wait();
    for (int i = 0; i < devices_.count(); ++i) {
      devices_.device(i).finish(streams_[static_cast<std::size_t>(i)]);
      devices_.device(i).end_stream(streams_[static_cast<std::size_t>(i)]);
    }
  }

 private:
  TransferSide& side(std::size_t count) {
    const int place = static_cast<int>(numbers_.below(3)) - 1;
    return sides_.emplace_back(devices_, streams_, place, count);
  }

  void send(int to, std::uint32_t tag, int number) {
    const auto values = message_of(seed_, job_.rank(), to, tag, number);
    TransferSide& from = side(values.size());
    from.write(values);
    const Work work = job_.world().send(from.buffer(), to, {.tag = tag});
    checks_.push_back([&from, work] {
      work.wait();
      from.spoil();  // the buffer is the caller's again
    });
  }

  void recv(int from, std::uint32_t tag, int number) {
    const int sender = from == kAnyRank ? 0 : from;  // all of that tag have one length
    const auto wanted = message_of(seed_, sender, job_.rank(), tag, number % kMessages);
    TransferSide& into = side(wanted.size());
    const Work work = job_.world().recv(into.buffer(), from, {.tag = tag});
    checks_.push_back([=, this, &into] {
      work.wait();
      if (from != kAnyRank) {
        EXPECT_EQ(into.read(), wanted) << "from rank " << from << ", tag " << tag;
        EXPECT_EQ(work.source(), from);
        return;
      }
      EXPECT_EQ(into.read(),
                message_of(seed_, work.source(), job_.rank(), tag, heard_[work.source()]++));
    });
  }

  LateDevices& devices_;
  Job& job_;
  const std::uint64_t seed_;
  SeededNumbers numbers_;
  std::vector<device::Stream> streams_;
  std::map<std::tuple<bool, int, std::uint32_t>, std::deque<int>> lanes_;
  std::deque<TransferSide> sides_;
  std::vector<std::function<void()>> checks_;
  std::map<int, int> heard_;  // messages from any rank, by the rank that they came from
};

// A world tries many seeds one after the other, because a new one takes longer than its messages.
TEST(StagedTransfers, ArriveInTheOrderOfTheirCallsHoweverLateStreamsAre) {
  const int worlds = test::is_brief() ? 8 : 40, each = test::is_brief() ? 1 : 25;
  for (int i = 0; i < worlds && !::testing::Test::HasFailure(); ++i) {
    const std::uint64_t first = test::seed(4410) + static_cast<std::uint64_t>(25 * i);
    const int ranks = 2 + i % 4;
    SCOPED_TRACE(fmt::format("{} seeds from {}, {} ranks", each, first, ranks));
    LateDevices devices(first, 2);
    run_with(devices, ranks, {.share_memory = i / 4 % 2 == 0}, [&](Job& job) {
      for (int j = 0; j < each; ++j)
        StagedExchange(devices, job, first + static_cast<std::uint64_t>(j)).run();
    });
    for (int number = 0; number < 2; ++number) {
      EXPECT_EQ(devices.device(number).registered(), 0U);
      EXPECT_EQ(devices.device(number).live_events(), 0);
    }
  }
}

TEST(StagedTransfers, ASendOnTheHostGoesBehindOneOnADeviceToTheSameRankAlone) {
  for (const bool share_memory : {true, false}) {
    LateDevices devices(test::seed(4411));
    std::latch third_has_it(2);
    run_with(devices, 3, {.share_memory = share_memory}, [&](Job& job) {
      Communicator& world = job.world();
      std::vector<float> values(10, static_cast<float>(job.rank()));
      if (job.rank() == 2) {
        world.recv(buffer_of(values), 0).wait(Deadline::in(20s));
        EXPECT_EQ(values[0], 0) << "another rank's message waits for no device";
        return third_has_it.count_down();
      }
      if (job.rank() == 1) {
        std::vector<float> first(10), second(10), third(0);
        const Work works[] = {world.recv(buffer_of(first), kAnyRank),
                              world.recv(buffer_of(second), 0), world.recv(buffer_of(third), 0)};
        for (const Work& work : works) work.wait();
        EXPECT_EQ(first[0], 5);
        EXPECT_EQ(second[0], 0);
        return;
      }
      LateDevice& device = devices.device(0);
      const OnDevice memory(device, 10, nullptr);
      memory.write(std::vector<float>(10, 5));
      device.hang(true);
      device.give(nullptr, [] {});
      const Work works[] = {world.send(memory.buffer(), 1), world.send(buffer_of(values), 1),
                            world.send(const_buffer_of(std::vector<float>()), 1)};
      world.send(buffer_of(values), 2).wait();
      third_has_it.arrive_and_wait();
      for (const Work& work : works) EXPECT_FALSE(work.done());
      device.hang(false);
      for (const Work& work : works) work.wait();
    });
  }
}

TEST(StagedTransfers, ARecvChangesItsBufferAfterWhatItsStreamWasGivenBefore) {
  LateDevices devices(test::seed(4412));
  run_with(devices, 2, {}, [&](Job& job) {
    LateDevice& device = devices.device(0);
    const device::Stream stream = device.make_stream().value();
    const OnDevice memory(device, 100, stream);
    memory.write(std::vector<float>(100, 7));
    std::vector<float> before;
    if (job.rank() == 0) {
      device.give(stream, [&] { before = memory.read(); });
      job.world().recv(memory.buffer(), 1).wait();
      EXPECT_EQ(before, std::vector<float>(100, 7));
      EXPECT_EQ(memory.read(), std::vector<float>(100, 2));
    } else {
      device.give(stream, [&] { memory.write(std::vector<float>(100, 2)); });
      job.world().send(memory.buffer(), 0).wait();
    }
    job.world().barrier().wait();
    device.end_stream(stream);
  });
}

// --- ends ----------------------------------------------------------------------------------------

TEST(StagedTransfers, CountAndTypeMustAgree) {
  LateDevices devices(test::seed(4413));
  run_with(devices, 2, {}, [&](Job& job) {
    const OnDevice memory(devices.device(0), 10, nullptr);
    memory.write(std::vector<float>(10, 9));
    const Failure failure = failure_of([&] {
      if (job.rank() == 0) job.world().send(memory.buffer(), 1, {.tag = 6}).wait();
      Buffer into = memory.buffer();
      into.count = 9;
      if (job.rank() == 1) job.world().recv(into, 0, {.tag = 6}).wait();
      job.world().barrier().wait();
    });
    EXPECT_EQ(failure.fault, Fault::mismatch);
    EXPECT_THAT(failure.what,
                HasSubstr("rank 0 sent f32[10] with tag 6 where rank 1 receives f32[9]"));
    EXPECT_EQ(memory.read(), std::vector<float>(10, 9));
  });
}

TEST(StagedTransfers, ADeadlineNamesTheOtherSideOnceTheDeviceIsDone) {
  for (const bool sends : {false, true}) {
    LateDevices devices(test::seed(4414));
    std::latch failed(1);
    run_with(devices, 2, {}, [&](Job& job) {
      if (job.rank() == 1) return failed.wait();
      const OnDevice memory(devices.device(0), 20'000, nullptr);
      const PointToPointOptions options = {.tag = 3, .within = sends ? 1s : 50ms};
      const Failure failure = failure_of([&] {
        const Work work = sends ? job.world().send(memory.buffer(), 1, options)
                                : job.world().recv(memory.buffer(), 1, options);
        work.wait();
      });
      failed.count_down();
      EXPECT_EQ(failure.fault, Fault::timed_out);
      EXPECT_EQ(failure.ranks, std::vector{1});
      EXPECT_THAT(failure.what,
                  AllOf(HasSubstr(sends ? "send f32[20000] to" : "recv f32[20000] fr"),
                        HasSubstr("rank 1, tag 3")));
    });
  }
}

// The failure of `wait` on rank 0, whose device does no work from its call on, and the lines that
// were written meanwhile.
struct SaidOfDevice {
  Failure failure;
  std::string lines;
};
SaidOfDevice where_the_device_hangs(
    const std::function<void(Communicator&, const OnDevice&, LateDevice&)>& wait) {
  LateDevices devices(test::seed(4415));
  LateDevice& device = devices.device(0);
  const OnDevice memory(device, 100, nullptr);  // which the late copy still uses
  std::latch over(1);
  SaidOfDevice said;
  ::testing::internal::CaptureStderr();
  run_with(devices, 2, {.timeout = 1s, .stall_time = 50ms}, [&](Job& job) {
    std::vector<float> values(100, 1);
    if (job.rank() == 1) {
      failure_of([&] { job.world().send(buffer_of(values), 0).wait(); });
      return over.wait();
    }
    said.failure = failure_of([&] { wait(job.world(), memory, device); });
    device.hang(false);
    over.count_down();
  });
  said.lines = ::testing::internal::GetCapturedStderr();
  return said;
}

TEST(StagedTransfers, ADeviceThatDoesNotGoOnIsNamedAtTheStallTimeAndAtTheDeadline) {
  const auto sends = where_the_device_hangs([](auto& world, const auto& memory, auto& device) {
    device.hang(true);
    device.give(nullptr, [] {});
    world.send(memory.buffer(), 1).wait();
  });
  const std::string send = "in send f32[100] with rank 1 for late:0 to copy the input to the host";
  EXPECT_EQ(sends.failure.fault, Fault::timed_out);
  EXPECT_THAT(sends.failure.what, HasSubstr("deadline: rank 0 waits " + send));
  EXPECT_THAT(sends.lines, HasSubstr("s rank 0 waits " + send));

  const auto recvs = where_the_device_hangs([](auto& world, const auto& memory, auto& device) {
    device.hang(true);
    device.give(nullptr, [] {});
    world.recv(memory.buffer(), kAnyRank).wait();
  });
  const std::string recv = "in recv f32[100] from any rank for late:0 to copy the output back";
  EXPECT_EQ(recvs.failure.fault, Fault::timed_out);
  EXPECT_THAT(recvs.failure.what, HasSubstr("deadline: rank 0 waits " + recv));
  EXPECT_THAT(recvs.lines, HasSubstr("s rank 0 waits " + recv));

  const auto behind = where_the_device_hangs([](auto& world, const auto& memory, auto& device) {
    device.hang(true);
    device.give(nullptr, [] {});
    const std::vector<float> values(5);
    std::vector<Work> many;
    for (int i = 0; i < 20; ++i) many.push_back(world.send(memory.buffer(), 1, {.within = 60s}));
    const auto begin = Clock::now();
    many.push_back(world.send(const_buffer_of(values), 1, {.within = 50ms}));
    const Failure failure = failure_of([&] { many.back().wait(); });
    EXPECT_LT(Clock::now() - begin, 10s) << "all 20 together are waited for a second";
    throw Error(failure);
  });
  EXPECT_EQ(behind.failure.fault, Fault::timed_out);
  EXPECT_THAT(behind.failure.what,
              HasSubstr("deadline: rank 0 waits in send f32[5] with rank 1 behind send f32[100] "
                        "with rank 1, for late:0 to copy the input to the host"));
}

// A copy that came later would read or write where nothing is.
TEST(StagedTransfers, NobodyUsesTheBuffersOfTransfersThatFailed) {
  for (const bool dies : {false, true}) {
    Life life;
    LateDevices devices(test::seed(4416));
    LateDevice& device = devices.device(0);
    std::atomic<bool> in_flight = false;
    const auto body = [&](Job& job) {
      job::use_devices(job, devices);
      std::vector<float> values(100, 1);
      if (job.rank() == 1) {
        job.world().send(buffer_of(values), 0, {.tag = 1}).wait();
        while (!in_flight) std::this_thread::yield();
        if (dies) life.end(job);
        else job.world().abort("enough");
        return;
      }
      std::vector<std::unique_ptr<OnDevice>> memory;
      for (int i = 0; i < 3; ++i)
        memory.push_back(std::make_unique<OnDevice>(device, 100, nullptr));
      device.hang(true);
      device.give(nullptr, [] {});
      // The copies of the first two are under way, and the third waits for its message.
      const Work works[] = {job.world().send(memory[0]->buffer(), 1),
                            job.world().recv(memory[1]->buffer(), 1, {.tag = 1}),
                            job.world().recv(memory[2]->buffer(), 1, {.tag = 2}),
                            job.world().send(buffer_of(values), 1)};
      in_flight = true;
      const std::jthread thaw([&] {  // rank 0 waits for the copies before its calls end
        while (!job.impl().generation->is_failing()) std::this_thread::yield();
        device.hang(false);
      });
      for (const Work& work : works) {
        const Failure failure = failure_of([&] { work.wait(); });
        EXPECT_THAT(failure.what, HasSubstr(dies ? "rank 1" : "enough"));
      }
      memory.clear();
      values = {};
      device.finish(nullptr);
    };
    run_ranks(2, test::with_mortal_rank({}, 1, life), body);
    EXPECT_EQ(device.registered(), 0U);
    EXPECT_EQ(device.live_events(), 0);
  }
}

TEST(StagedTransfers, SendingToWhoHasLeftFails) {
  for (const std::size_t count : {std::size_t{10}, std::size_t{20'000}}) {
    LateDevices devices(test::seed(4417));
    std::vector<Job> jobs = make_local_world(2, kShared);
    jobs.erase(jobs.begin());
    job::use_devices(jobs[0], devices);
    const OnDevice memory(devices.device(0), count, nullptr);
    const auto failure = failure_of([&] {
      // The goodbye may still be on its way: then a short send is done, and a later one fails.
      for (const Deadline deadline = Deadline::in(5s); !deadline.passed();)
        jobs[0].world().send(memory.buffer(), 0).wait(Deadline::in(5s));
    });
    EXPECT_EQ(failure.fault, Fault::peer_lost) << failure.what;
    EXPECT_EQ(failure.ranks, std::vector{0});
    jobs.clear();
  }
}

TEST(StagedTransfers, ADeviceThatFailsEndsThemWithItsText) {
  LateDevices devices(test::seed(4418));
  LateDevice& device = devices.device(0);
  std::latch both_failed(2);
  run_with(devices, 2, {}, [&](Job& job) {
    const OnDevice memory(device, 100, nullptr);
    std::vector<float> values(100);
    const Work work = job.rank() == 0 ? job.world().recv(memory.buffer(), 1) : Work();
    if (job.rank() == 0) device.break_down("an illegal address");
    job.world().barrier().wait();
    const Failure failure = failure_of([&] {
      if (job.rank() == 1) job.world().send(buffer_of(values), 0).wait();
      work.wait();
      job.world().barrier().wait();
    });
    EXPECT_THAT(failure.what, HasSubstr("late:0: an illegal address"));
    both_failed.arrive_and_wait();
    device.break_down("");
  });
}

// --- refusals ------------------------------------------------------------------------------------

TEST(StagedTransfers, MemoryThatIsNotTheDevicesIsRefusedAndTheGroupGoesOn) {
  LateDevices devices(test::seed(4419), 2);
  run_with(devices, 1, {}, [&](Job& job) {
    std::vector<float> host(10);
    const OnDevice memory(devices.device(0), 10, nullptr);
    const auto refused = [&](std::byte* data, int number, const std::string& text) {
      const Buffer buffer{
          data, 10, Dtype::f32, {.kind = Memory::Kind::cuda, .device = number, .stream = nullptr}};
      for (const bool sends : {true, false}) {
        const Failure failure = failure_of(
            [&] { (void)(sends ? job.world().send(buffer, 0) : job.world().recv(buffer, 0)); });
        EXPECT_EQ(failure.fault, Fault::misuse);
        EXPECT_THAT(failure.what, HasSubstr(text));
      }
    };
    refused(buffer_of(host).data, 0, "it lies on the host");
    refused(memory.memory.data(), 1, "late:1");
    refused(memory.memory.data(), 2, "this process sees 2 devices");
    refused(nullptr, 0, "without memory");
    memory.write(std::vector<float>(10, 4));
    const Work work = job.world().send(memory.buffer(), 0);
    job.world().recv(buffer_of(host), 0).wait();
    work.wait();
    EXPECT_EQ(host, std::vector<float>(10, 4));
  });
}

}  // namespace
}  // namespace paceline::collective::testing
