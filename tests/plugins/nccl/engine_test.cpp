// The NCCL engine on doubles of NCCL and CUDA (fake_gpus.h): the claims on every engine, and its
// own parts: device memory, streams, averages, ends.
#include "paceline/plugins/nccl/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/core/job/use_devices.h"
#include "paceline/plugins/nccl/nccl.h"
#include "tests/core/collective/worlds.h"
#include "tests/plugins/nccl/fake_gpus.h"
#include "tests/support/conformance.h"
#include "tests/support/ledger_engine.h"
#include "tests/support/mortal_link.h"

namespace paceline::nccl::testing {
namespace {

using collective::EngineCall;
using collective::EngineLibrary;
using collective::testing::failure_of;
using collective::testing::kSharedFast;
using test::run_ranks;
using ::testing::HasSubstr;
using namespace std::chrono_literals;

// For one rank; as long as the process, as libraries are.
EngineLibrary& library_of(const Functions& functions) {
  static std::mutex mutex;
  static auto& all = *new std::vector<std::unique_ptr<EngineLibrary>>;
  const std::lock_guard lock(mutex);
  return *all.emplace_back(make_library(functions));
}

void run_with(const FakeGpus& gpus, int ranks, const LocalWorldOptions& world,
              const std::function<void(Job&, EngineLibrary&)>& body) {
  const Functions functions = fake_functions(gpus);
  run_ranks(ranks, world, [&](Job& job) { body(job, library_of(functions)); });
}

void run_with(const FakeGpus& gpus, int ranks,
              const std::function<void(Job&, EngineLibrary&)>& body) {
  run_with(gpus, ranks, kSharedFast, body);
}

class NcclEngine : public ::testing::Test {
 protected:
  void TearDown() override {
    // A thread ends by itself when its caller no longer waits for it.
    for (const Deadline deadline = Deadline::in(30s); living_comms() > 0 && !deadline.passed();)
      std::this_thread::yield();
    EXPECT_EQ(living_comms(), 0);
    EXPECT_EQ(living_objects(), 0);
  }
};

// --- the claims ----------------------------------------------------------------------------------

// Host memory handed to NCCL as if it were a device's, which that of the doubles is. What NCCL has
// no words for a ledger carries.
class AsDeviceMemory final : public EngineLibrary {
 public:
  AsDeviceMemory(EngineLibrary& nccl, EngineLibrary& rest) : nccl_(nccl), rest_(rest) {}
  collective::EngineTraits traits() const override { return {.name = "nccl", .invites = true}; }
  std::string obstacle() const override { return nccl_.obstacle(); }
  std::string refusal(const EngineCall&) const override { return {}; }
  Result<> start(const collective::EnginePlace& place) override {
    device_ = place.local_rank;
    if (auto started = rest_.start(place); !started) return started;
    return nccl_.start(place);
  }
  Result<std::vector<std::byte>> invitation() override { return nccl_.invitation(); }
  Result<std::unique_ptr<collective::Engine>> engine_of(
      const collective::Gathering& group) override;

  EngineCall moved(EngineCall call) const {
    call.input.memory = call.output.memory = {.kind = Memory::Kind::cuda, .device = device_};
    return call;
  }
  bool is_ncclds(const EngineCall& call) const { return nccl_.refusal(moved(call)).empty(); }

 private:
  EngineLibrary& nccl_;
  EngineLibrary& rest_;
  int device_ = 0;
};

class EitherEngine final : public collective::Engine {
 public:
  EitherEngine(const AsDeviceMemory& library, std::unique_ptr<collective::Engine> nccl,
               std::unique_ptr<collective::Engine> rest)
      : library_(library), nccl_(std::move(nccl)), rest_(std::move(rest)) {}
  Result<> begin(const EngineCall& call) override {
    current_ = library_.is_ncclds(call) ? nccl_.get() : rest_.get();
    return current_->begin(library_.moved(call));
  }
  Result<bool> progress() override { return current_->progress(); }
  void abandon() override { nccl_->abandon(); }

 private:
  const AsDeviceMemory& library_;
  const std::unique_ptr<collective::Engine> nccl_, rest_;
  collective::Engine* current_ = nullptr;
};

Result<std::unique_ptr<collective::Engine>> AsDeviceMemory::engine_of(
    const collective::Gathering& group) {
  auto nccl = nccl_.engine_of(group);
  if (!nccl) return nccl.error();
  auto rest = rest_.engine_of(group);
  return std::unique_ptr<collective::Engine>(
      std::make_unique<EitherEngine>(*this, *std::move(nccl), *std::move(rest)));
}

class Conformance : public ::testing::TestWithParam<test::Claim> {};

TEST_P(Conformance, Holds) {
  for (const int ranks : test::kSanitized ? std::vector{3} : std::vector{2, 3, 5}) {
    SCOPED_TRACE(ranks);
    test::Ledger& ledger = test::Ledger::make();
    run_with({}, ranks, [&](Job& job, EngineLibrary& nccl) {
      AsDeviceMemory library(nccl, ledger.library(job.rank()));
      const auto group = test::world_over(job, library, 60s);
      GetParam().check(job, *group);
    });
    EXPECT_EQ(living_comms(), 0);
    EXPECT_EQ(living_objects(), 0);
  }
}

INSTANTIATE_TEST_SUITE_P(OfNccl, Conformance,
                         ::testing::ValuesIn(test::conformance().begin(),
                                             test::conformance().end()),
                         [](const auto& one) { return std::string(one.param.name); });

// --- device memory -------------------------------------------------------------------------------

TEST_F(NcclEngine, CarriesDeviceMemoryAndLeavesTheHostsToPrograms) {
  run_with({}, 3, [](Job& job, EngineLibrary& nccl) {
    const auto group = test::world_over(job, nccl, 60s);
    std::vector<float> on_device(1000, 1), on_host(1000, 1);
    const Work one = group->all_reduce(device_buffer_of(on_device.data(), 1000, job.rank()));
    group->all_reduce(buffer_of(on_host), {.algorithm = "ring"}).wait();
    one.wait();
    EXPECT_EQ(on_device, std::vector<float>(1000, 3));
    EXPECT_EQ(on_host, std::vector<float>(1000, 3));
  });
}

TEST_F(NcclEngine, SplitsAndLeavesPartsOfAnyLength) {
  run_with({}, 4, [](Job& job, EngineLibrary& nccl) {
    const auto world = test::world_over(job, nccl, 60s);
    const auto group = world->split(job.rank() % 2);
    const std::vector<std::size_t> counts = {3, 0};
    std::vector<float> in(3, static_cast<float>(job.rank() + 1)), out(3);
    const auto own = static_cast<std::size_t>(group->rank() == 0 ? 3 : 0);
    group
        ->reduce_scatter(device_buffer_of(in.data(), 3, job.rank()),
                         device_buffer_of(out.data(), own, job.rank()), {.counts = counts})
        .wait();
    const float sum = job.rank() % 2 == 0 ? 1 + 3 : 2 + 4;
    EXPECT_EQ(out[0], group->rank() == 0 ? sum : 0);
  });
}

template <typename T>
void averages(T exact_third) {
  run_with({}, 3, [&](Job& job, EngineLibrary& nccl) {
    const auto group = test::world_over(job, nccl, 60s);
    std::vector<T> values(100, static_cast<T>(job.rank() + 1));
    const Buffer buffer = device_buffer_of(values.data(), values.size(), job.rank());
    group->all_reduce(buffer, {.op = ReduceOp::average}).wait();
    EXPECT_NEAR(static_cast<double>(values[99]), 2, 1e-6);
    values.assign(100, static_cast<T>(job.rank() + 1));
    const Work work = group->all_reduce(
        buffer, {.op = ReduceOp::average, .weight = job.rank() == 2 ? 0.0 : job.rank() + 1.0});
    work.wait();
    EXPECT_EQ(work.total_weight(), 3);
    EXPECT_NEAR(static_cast<double>(values[99]), static_cast<double>(5 * exact_third), 1e-6);
  });
}

TEST_F(NcclEngine, AveragesByWeightsOnTheDevice) {
  averages<float>(1.0F / 3);
  averages<double>(1.0 / 3);
}

TEST_F(NcclEngine, BeginsWhenTheStreamsOfAllCallersHaveComeToTheCall) {
  cudaStream_t stream = nullptr;
  run_with({}, 2, [&](Job& job, EngineLibrary& nccl) {
    if (job.rank() == 0) stream = closed_stream();
    const auto group = test::world_over(job, nccl, 60s);
    std::vector<float> values(10, 1);
    void* const own = job.rank() == 0 ? stream : nullptr;
    const Work work = group->all_reduce(device_buffer_of(values.data(), 10, job.rank(), own));
    EXPECT_EQ(failure_of([&] { work.wait(Deadline::in(30ms)); }).fault, Fault::timed_out);
    EXPECT_EQ(values[0], 1);
    job.world().barrier().wait();
    if (job.rank() == 0) open(stream);
    work.wait();
    EXPECT_EQ(values[0], 2);
  });
  ASSERT_EQ(fake_functions().cuda.destroy_stream(stream), cudaSuccess);
}

// --- misuse --------------------------------------------------------------------------------------

TEST_F(NcclEngine, RefusesWhatItCannotCarryAndLivesOn) {
  std::vector<float> nowhere(4);
  run_with({.unknown = {nowhere.data()}}, 2, [&](Job& job, EngineLibrary& nccl) {
    const auto group = test::world_over(job, nccl, 60s);
    std::vector<float> values(4, 1), host(4);
    std::vector<std::int16_t> shorts(4);
    const int device = job.rank();
    const Buffer there = device_buffer_of(values.data(), 4, device);
    const auto expect_refused = [](const auto& call, const std::string& text) {
      const Failure failure = failure_of(call);
      EXPECT_EQ(failure.fault, Fault::misuse);
      EXPECT_THAT(failure.what, HasSubstr(text));
    };
    const auto sum = [&](Buffer buffer) { (void)group->all_reduce(buffer); };
    expect_refused([&] { sum(device_buffer_of(shorts.data(), 4, device)); },
                   "NCCL has no sum of i16");
    expect_refused([&] { sum(device_buffer_of(values.data(), 4, 5)); },
                   "a buffer lies on device 5, and rank");
    expect_refused([&] { sum(device_buffer_of(nowhere.data(), 4, device)); },
                   "no memory of CUDA's");
    expect_refused([&] { (void)group->all_reduce(const_buffer_of(host), there); },
                   "both must be in the same");
    expect_refused([&] { (void)group->all_reduce(there, {.algorithm = "ring"}); },
                   "programs cannot read");
    expect_refused([&] { (void)job.world().all_reduce(there); }, "lies in device memory");
    expect_refused([&] { (void)group->all_to_all(there, there); }, "copy it to the host");
    expect_refused([&] { (void)group->send(there, 0); }, "copy it to the host");
    group->all_reduce(there).wait();
    EXPECT_EQ(values[0], 2);
  });
}

TEST_F(NcclEngine, MoreRanksThanDevicesAreMisuseThatNamesBoth) {
  run_with({.devices = 2}, 3, [](Job& job, EngineLibrary& nccl) {
    const Failure failure = failure_of([&] { (void)test::world_over(job, nccl, 60s); });
    EXPECT_EQ(failure.fault, Fault::misuse);
    EXPECT_THAT(failure.what, HasSubstr("which has 2 CUDA devices"));
  });
}

// NCCL, which would wait for ever, is not asked.
TEST_F(NcclEngine, RanksThatHaveToldOfOneDeviceOrOfNoneAreRefusedByName) {
  const std::vector<membership::RankDevice> shared = {{"ab", true}, {"cd", true}, {"ab", true}},
                                            unlike = {{"ab", true}, {}, {"cd", true}};
  for (const auto& [told, text] :
       {std::pair{shared,
                  "ranks 0 and 2 have the same CUDA device, ab; NCCL wants a device of its"},
        std::pair{unlike, "rank 1 has no CUDA device, and others have"}}) {
    run_with({.comes_together = false}, 3, [&](Job& job, EngineLibrary& nccl) {
      job::tell_devices(job, told, nullptr);
      const Failure failure = failure_of([&] { (void)test::world_over(job, nccl, 60s); });
      EXPECT_EQ(failure.fault, Fault::misuse);
      EXPECT_THAT(failure.what, HasSubstr(text));
    });
  }
}

TEST_F(NcclEngine, AGroupThatNcclRefusesIsMisuseWithItsReason) {
  run_with({.refuses_groups = "Duplicate GPU detected"}, 2, [](Job& job, EngineLibrary& nccl) {
    const Failure failure = failure_of([&] { (void)test::world_over(job, nccl, 60s); });
    EXPECT_EQ(failure.fault, Fault::misuse);
    EXPECT_THAT(failure.what, HasSubstr("Duplicate GPU detected"));
    EXPECT_THAT(failure.what, HasSubstr("CUDA_VISIBLE_DEVICES"));
  });
}

// --- failures ------------------------------------------------------------------------------------

TEST_F(NcclEngine, WhatNcclReportsEndsTheGenerationAndAbortsEveryCommunicator) {
  run_with({.breaks_down = true}, 3, [](Job& job, EngineLibrary& nccl) {
    const auto group = test::world_over(job, nccl, 60s);
    std::vector<float> values(10, 1);
    const Buffer buffer = device_buffer_of(values.data(), 10, job.rank());
    const Failure failure = failure_of([&] { group->all_reduce(buffer).wait(); });
    EXPECT_EQ(failure.fault, Fault::io);
    EXPECT_THAT(failure.what, HasSubstr("NCCL_DEBUG=WARN"));
    EXPECT_EQ(values[0], 1);
  });
  EXPECT_EQ(aborted_comms(), 3);
}

// NCCL hears that a rank has gone before its links have ended, and does not know its name.
TEST_F(NcclEngine, ALostRankIsToldByNameAlsoWhereNcclFailsBeforeItsLossIsKnown) {
  test::Life life;
  run_with({.breaks_down = true}, 3, test::with_mortal_rank(kSharedFast, 2, life),
           [&](Job& job, EngineLibrary& nccl) {
             const auto group = test::world_over(job, nccl, 60s);
             std::vector<float> values(10, 1);
             const Work work = group->all_reduce(device_buffer_of(values.data(), 10, job.rank()));
             if (job.rank() == 2) {
               (void)failure_of([&] { work.wait(Deadline::in(100ms)); });
               return life.end(job);
             }
             const Failure failure = failure_of([&] { work.wait(); });
             EXPECT_EQ(failure.fault, Fault::peer_lost) << failure.what;
             EXPECT_THAT(failure.what, HasSubstr("rank 2 was lost"));
             EXPECT_EQ(failure.ranks, std::vector{2});
           });
}

TEST_F(NcclEngine, AFailureOfTheOwnDeviceIsToldAtOnce) {
  run_with({.breaks_down = true, .breaks_by = Status::unhandled_cuda_error}, 2,
           [](Job& job, EngineLibrary& nccl) {
             const auto group = test::world_over(job, nccl, 60s);
             std::vector<float> values(10, 1);
             const auto begun = Clock::now();
             const Failure failure = failure_of([&] {
               group->all_reduce(device_buffer_of(values.data(), 10, job.rank())).wait();
             });
             EXPECT_EQ(failure.fault, Fault::io);
             EXPECT_LT(Clock::now() - begun, 900ms) << failure.what;
           });
}

TEST_F(NcclEngine, RanksThatDoNotComeTogetherEndWithTheDeadline) {
  run_with({.comes_together = false}, 2, [](Job& job, EngineLibrary& nccl) {
    const Failure failure = failure_of([&] { (void)test::world_over(job, nccl, 60ms); });
    EXPECT_EQ(failure.fault, Fault::timed_out);
    EXPECT_THAT(failure.what, HasSubstr("came together in the nccl library"));
  });
}

TEST(NcclFunctions, WithoutADeviceSayWhatIsMissingAndWhatToDo) {
  const auto none = count_devices(fake_functions({.devices = 0}).cuda);
  ASSERT_FALSE(none);
  EXPECT_THAT(none.error().what, HasSubstr("there is no CUDA device here"));
  const auto found = load_functions();
  if (found) GTEST_SKIP() << "NOT TESTED: a CUDA device is here";
  EXPECT_EQ(found.error().fault, Fault::misuse);
  EXPECT_THAT(found.error().what, HasSubstr("take transport auto, shm or tcp"));
  const auto library = make_library(found.error());
  EXPECT_EQ(library->obstacle(), found.error().what);
  EXPECT_EQ(library->start({}).error().what, found.error().what);
}

}  // namespace
}  // namespace paceline::nccl::testing
