// Calls that ranks offer to a library whose group comes together when the first of them is given to
// it. A ledger (tests/support/ledger_engine.h) is the library, and memory of the host stands for
// that of a late device. Also covers paceline/core/collective/group/device_buffers.cpp.
#include "paceline/core/collective/engine/late_engine.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/core/collective/staging/on_device.h"
#include "tests/support/conformance.h"
#include "tests/support/ledger_engine.h"
#include "tests/support/seed.h"

namespace paceline::collective::testing {
namespace {

using test::LateDevices;
using test::Ledger;
using ::testing::HasSubstr;

struct OfferingWorld {
  DeviceWorld world = {.reproducible = false};
  int own_devices = 8;  // ranks beyond these share the first one's
};

// Worlds whose ranks have told of their devices.
void run_offering(LateDevices& devices, Ledger& ledger, int ranks, const OfferingWorld& options,
                  const std::function<void(Job&)>& body) {
  for (int i = 0; i < devices.count(); ++i) devices.device(i).let_host_memory_pass(true);
  run_with(devices, ranks, options.world, [&](Job& job) {
    std::vector<membership::RankDevice> told;
    for (int rank = 0; rank < ranks; ++rank)
      told.push_back({std::to_string(rank < options.own_devices ? rank : 0), true});
    job::tell_devices(job, told, &ledger.library(job.rank()));
    body(job);
  });
}

Buffer on_device(std::vector<float>& values, device::Stream stream = nullptr) {
  return {reinterpret_cast<std::byte*>(values.data()),
          values.size(),
          Dtype::f32,
          {.kind = Memory::Kind::cuda, .device = 0, .stream = stream}};
}

// --- the claims ----------------------------------------------------------------------------------

class OfferedConformance : public ::testing::TestWithParam<std::tuple<bool, test::Claim>> {};

TEST_P(OfferedConformance, Holds) {
  const auto& [share_memory, claim] = GetParam();
  for (const int ranks : kSanitized ? std::vector{3} : std::vector{2, 3, 5}) {
    SCOPED_TRACE(fmt::format("{} ranks", ranks));
    LateDevices devices(test::seed(4450));
    Ledger& ledger = Ledger::make();
    run_offering(
        devices, ledger, ranks,
        {.world = {.share_memory = share_memory, .reproducible = false, .all_on_device = true}},
        [&claim = claim](Job& job) { claim.check(job, job.world()); });
    EXPECT_EQ(devices.device(0).registered(), 0U);
    EXPECT_EQ(devices.device(0).streams(), 0);
    EXPECT_EQ(devices.device(0).live_events(), 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Of, OfferedConformance,
                         ::testing::Combine(::testing::Bool(),
                                            ::testing::ValuesIn(test::conformance().begin(),
                                                                test::conformance().end())),
                         [](const auto& one) {
                           return fmt::format("{}_{}", std::get<0>(one.param) ? "Shm" : "Tcp",
                                              std::get<1>(one.param).name);
                         });

// --- offers --------------------------------------------------------------------------------------

TEST(LateEngine, TakesCallsThatAllRanksOfferAndIsInvitedOnce) {
  for (const bool share_memory : {true, false}) {
    LateDevices devices(test::seed(4451));
    Ledger& ledger = Ledger::make();
    ledger.invitation = "come in";
    run_offering(devices, ledger, 3,
                 {.world = {.share_memory = share_memory, .reproducible = false}}, [&](Job& job) {
                   for (int i = 0; i < 4; ++i) {
                     std::vector<float> values(1000, 1);
                     job.world().all_reduce(on_device(values)).wait();
                     EXPECT_EQ(values, std::vector<float>(1000, 3));
                   }
                   const auto half = job.world().split(job.rank() % 2);
                   std::vector<float> values(10, 1);
                   half->all_reduce(on_device(values)).wait();
                   EXPECT_EQ(values[9], static_cast<float>(half->size()));
                 });
    EXPECT_EQ(ledger.handed_over(), 4 * 3 + 2) << "a rank alone keeps its own";
    EXPECT_EQ(ledger.invited(), 3 + 2);
  }
}

TEST(LateEngine, IsNeverAskedWhereNoBufferLiesOnADevice) {
  LateDevices devices(test::seed(4452));
  Ledger& ledger = Ledger::make();
  ledger.comes_together = false;  // who starts it waits for ever
  run_offering(devices, ledger, 2, {}, [&](Job& job) {
    std::vector<float> values(1000, 1);
    job.world().all_reduce(buffer_of(values)).wait();
    job.world().barrier().wait();
    EXPECT_EQ(values[0], 2);
  });
}

TEST(LateEngine, RanksThatShareADeviceOrMustKeepBitsDoNotAskItEither) {
  for (const auto& options :
       {OfferingWorld{.own_devices = 1}, OfferingWorld{.world = {.share_memory = false}},
        OfferingWorld{
            .world = {.reproducible = false, .transport = membership::DeviceTransport::staged}}}) {
    LateDevices devices(test::seed(4453));
    Ledger& ledger = Ledger::make();
    run_offering(devices, ledger, 2, options, [&](Job& job) {
      std::vector<float> values(1000, 1);
      job.world().all_reduce(on_device(values)).wait();
      EXPECT_EQ(values[0], 2);
    });
    EXPECT_EQ(ledger.handed_over(), 0);
  }
}

// Each call in turn has another rank's buffer on the host, also the first one, and calls are in
// flight together.
TEST(LateEngine, ACallOfRanksWithUnlikeMemoryIsStaged) {
  for (const bool share_memory : {true, false}) {
    for (const int ranks : {2, 3, 9}) {
      for (const std::size_t count : {1U, 1000U, 300000U}) {
        for (const int first : {0, 2}) {
          SCOPED_TRACE(fmt::format("{} ranks, {} elements, from call {}{}", ranks, count, first,
                                   share_memory ? ", shared memory" : ""));
          LateDevices devices(test::seed(4454));
          Ledger& ledger = Ledger::make();
          run_offering(
              devices, ledger, ranks,
              {.world = {.share_memory = share_memory, .reproducible = false}, .own_devices = 9},
              [&](Job& job) {
                std::vector<std::vector<float>> values(6, std::vector<float>(count, 1));
                std::vector<Work> works;
                for (int i = 0; i < 6; ++i) {
                  auto& one = values[static_cast<std::size_t>(i)];
                  const bool offers = i < first || (job.rank() + i) % ranks != 0;
                  works.push_back(job.world().all_reduce(offers ? on_device(one) : buffer_of(one)));
                }
                for (const Work& work : works) work.wait();
                for (const auto& one : values)
                  EXPECT_EQ(one, std::vector<float>(count, static_cast<float>(ranks)));
                std::vector<float> later(count, 1);
                job.world().all_reduce(on_device(later)).wait();
                EXPECT_EQ(later[0], static_cast<float>(ranks)) << "it is not offered";
                job.world().barrier().wait();
              });
          // Many ranks that share no memory carry short inputs with their assent.
          const bool is_gathered = !share_memory && ranks == 9 && count <= 1000;
          EXPECT_EQ(ledger.handed_over(), is_gathered ? 0 : ranks * first);
        }
      }
    }
  }
}

TEST(LateEngine, WhatTheLibraryDoesNotTakeIsStagedAndSoAreProgramsByTheirName) {
  LateDevices devices(test::seed(4455));
  Ledger& ledger = Ledger::make();
  ledger.longest = 100;
  run_offering(devices, ledger, 3, {}, [&](Job& job) {
    std::vector<float> shorter(100, 1), longer(101, 1), named(100, 1);
    const Work works[] = {job.world().all_reduce(on_device(longer)),
                          job.world().all_reduce(on_device(shorter)),
                          job.world().all_reduce(on_device(named), {.algorithm = "ring"})};
    for (const Work& work : works) work.wait();
    EXPECT_EQ(longer[100], 3);
    EXPECT_EQ(shorter[99], 3);
    EXPECT_EQ(named[99], 3);
  });
  EXPECT_EQ(ledger.handed_over(), 3);
}

// A stream may wait for the call before the library has it.
TEST(LateEngine, BeginsBehindWhatStreamsHadBeenGivenBeforeAndNoLaterWork) {
  for (int i = 0; i < 20; ++i) {
    LateDevices devices(test::seed(4456) + static_cast<std::uint64_t>(i));
    Ledger& ledger = Ledger::make();
    run_offering(devices, ledger, 2 + i % 3, {}, [&](Job& job) {
      auto& device = devices.device(0);
      const device::Stream stream = device.make_stream().value();
      std::vector<float> values(100), seen;
      const auto ranks = static_cast<float>(job.world().size());
      float expected = 1;
      device.give(stream, [&] { values.assign(100, 1); });
      for (int round = 0; round < 4; ++round) {
        const Work work = job.world().all_reduce(on_device(values, stream));
        work.order(stream);
        device.give(stream, [&] {
          seen = values;
          for (float& value : values) value += 1;
        });
        work.wait();
        device.finish(stream);
        expected *= ranks;
        EXPECT_EQ(seen, std::vector<float>(100, expected));
        expected += 1;
      }
      EXPECT_FALSE(ledger.streams().contains(stream)) << "it may wait for the call by then";
      job.world().barrier().wait();
      device.end_stream(stream);
    });
    EXPECT_EQ(ledger.handed_over(), 4 * (2 + i % 3));
  }
}

// --- ends ----------------------------------------------------------------------------------------

TEST(LateEngine, AFailureOfTheLibraryEndsTheCallOnAllRanks) {
  LateDevices devices(test::seed(4457));
  Ledger& ledger = Ledger::make();
  ledger.failure = "the ledger is torn";
  run_offering(devices, ledger, 3, {}, [&](Job& job) {
    std::vector<float> values(1000, 1);
    const Failure failure = failure_of([&] { job.world().all_reduce(on_device(values)).wait(); });
    EXPECT_THAT(failure.what, HasSubstr("the ledger is torn"));
  });
}

TEST(LateEngine, ACallThatTheLibraryDoesNotEndIsNamedAtTheDeadline) {
  LateDevices devices(test::seed(4458));
  Ledger& ledger = Ledger::make();
  ledger.finishes = false;
  OfferingWorld options;
  options.world.timeout = 300ms;
  run_offering(devices, ledger, 2, options, [&](Job& job) {
    std::vector<float> values(1000, 1);
    const Failure failure = failure_of([&] { job.world().all_reduce(on_device(values)).wait(); });
    EXPECT_EQ(failure.fault, Fault::timed_out);
    EXPECT_THAT(failure.what, HasSubstr("all_reduce f32[1000] sum by nccl"));
  });
}

// The meeting's thread outlives the groups, and ends when it sees that nobody waits.
TEST(LateEngine, AMeetingThatDoesNotEndIsToldAtTheDeadlineWithAWayOut) {
  LateDevices devices(test::seed(4460));
  Ledger& ledger = Ledger::make();
  ledger.ends_meetings = false;
  OfferingWorld options;
  options.world.timeout = 1s;
  run_offering(devices, ledger, 2, options, [&](Job& job) {
    std::vector<float> values(1000, 1);
    job.world().barrier().wait();
    const Failure failure = failure_of([&] { job.world().all_reduce(on_device(values)).wait(); });
    EXPECT_EQ(failure.fault, Fault::timed_out);
    EXPECT_THAT(failure.what, HasSubstr("--device-transport staged"));
  });
  EXPECT_EQ(ledger.handed_over(), 0);
}

TEST(LateEngine, AGroupThatTheLibraryCannotMakeIsToldWithAWayOut) {
  LateDevices devices(test::seed(4461));
  Ledger& ledger = Ledger::make();
  ledger.no_group = "the ranks have unlike ledgers";
  run_offering(devices, ledger, 3, {}, [&](Job& job) {
    std::vector<float> values(1000, 1);
    const Failure failure = failure_of([&] { job.world().all_reduce(on_device(values)).wait(); });
    EXPECT_THAT(failure.what, HasSubstr("the ranks have unlike ledgers"));
    EXPECT_THAT(failure.what, HasSubstr("--device-transport staged"));
  });
}

TEST(LateEngine, WhereARankCannotStartTheLibraryCallsAreStaged) {
  LateDevices devices(test::seed(4459));
  Ledger& ledger = Ledger::make();
  ledger.cannot_start = 1;
  run_offering(devices, ledger, 3, {}, [&](Job& job) {
    for (int i = 0; i < 3; ++i) {
      std::vector<float> values(1000, 1);
      job.world().all_reduce(on_device(values)).wait();
      EXPECT_EQ(values[0], 3);
    }
  });
  EXPECT_EQ(ledger.handed_over(), 0);
}

}  // namespace
}  // namespace paceline::collective::testing
