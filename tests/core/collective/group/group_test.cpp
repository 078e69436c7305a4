// The behaviour of a group between its operations and at its end. Mismatches and missing ranks are
// tested in communicator_mismatch_test.cpp.
#include "paceline/core/collective/group/group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <thread>

#include "paceline/core/collective/call/collective_frames.h"
#include "paceline/core/collective/call/work_state.h"
#include "paceline/core/collective/program/algorithm_catalogue.h"
#include "tests/core/collective/worlds.h"
#include "tests/support/test_link.h"

namespace paceline::collective::testing {
namespace {

using ::testing::HasSubstr;

TEST(Group, EndsInPeaceWhenAllItsWorkIsDone) {
  for (const auto& options : {kShared, kTcp}) {
    for (int round = 0; round < 20; ++round) {
      run_ranks(4, options, [](Job& job) {
        std::vector<float> values(3000, 1);
        job.world().all_reduce(buffer_of(values)).wait();
        EXPECT_EQ(values[0], 4);
      });  // each rank leaves when it is done, while the others still read its messages
    }
  }
}

TEST(Group, ThatEndsWithWorkInFlightTellsTheOthersWho) {
  for (const auto& options : {kShared, kTcp}) {
    run_ranks(3, options, [](Job& job) {
      // The buffer lives as long as its operation, also on the rank that unwinds.
      const auto held = std::make_shared<std::vector<float>>(3000, 1.0F);
      std::vector<float>& values = *held;
      const auto failure = failure_of([&] {  // thrown by the call already where rank 1 was quick
        const Work work = job.rank() == 0 ? job.world().recv(buffer_of(values), 1)
                                          : job.world().all_reduce(buffer_of(values));
        work.keep(held);
        if (job.rank() != 1) work.wait(Deadline::in(5s));
      });
      if (job.rank() == 1) return;
      EXPECT_TRUE(failure.fault == Fault::cancelled || failure.fault == Fault::peer_lost)
          << failure.what;
      EXPECT_EQ(failure.ranks, std::vector{1}) << failure.what;
    });
  }
}

TEST(Group, AFailureIsTheCauseOfAllThatFollows) {
  run_ranks(2, [](Job& job) {
    std::vector<float> values(30);
    std::vector<Work> works;
    if (job.rank() == 0) works.push_back(job.world().barrier());
    Failure first = failure_of([&] {  // thrown here already when the other rank was quicker
      for (int i = 0; i < 5; ++i) works.push_back(job.world().all_reduce(buffer_of(values)));
      works.push_back(job.world().recv(buffer_of(values), 1 - job.rank()));
      works.front().wait(Deadline::in(5s));
    });
    EXPECT_EQ(first.fault, Fault::mismatch);
    for (const Work& work : works)
      EXPECT_EQ(failure_of([&] { work.wait(Deadline::in(5s)); }), first);
    EXPECT_EQ(failure_of([&] { job.world().send(const_buffer_of(values), 0).wait(); }), first);
  });
}

TEST(Group, CountsTheTimeInFlightAndWaited) {
  std::atomic<bool> waited = false;
  run_ranks(2, [&waited](Job& job) {
    if (job.rank() == 1) {
      while (!waited) std::this_thread::yield();
      job.world().barrier().wait();
      return;
    }
    const Work work = job.world().barrier();
    (void)job.world().traffic();  // behind the call, which the driver begins
    // A wait may begin later than its deadline was set.
    for (int i = 0; i < 3 && job.world().traffic().waited < 30ms; ++i)
      (void)failure_of([&] { work.wait(Deadline::in(30ms)); });
    const Traffic busy = job.world().traffic();
    waited = true;
    EXPECT_GE(busy.in_flight, 30ms);
    EXPECT_GE(busy.waited, 30ms);
    work.wait();
    const Traffic done = job.world().traffic();
    EXPECT_EQ(job.world().traffic().in_flight, done.in_flight) << "nothing is in flight";
  });
}

TEST(Group, ASendThatIsDoneIsNotInFlight) {
  run_ranks(2, [](Job& job) {
    std::vector<float> values(10, 5);
    if (job.rank() == 0) {
      job.world().send(const_buffer_of(values), 1).wait();
      const Traffic before = job.world().traffic();
      EXPECT_EQ(job.world().traffic().in_flight, before.in_flight);
    }
    job.world().barrier().wait();
    if (job.rank() == 1) job.world().recv(buffer_of(values), 0).wait();
  });
}

// A link whose frames wait until they are let out, to a peer that the test plays.
class HeldLink final : public test::TestLink {
 public:
  using TestLink::TestLink;
  void send(const transport::FrameHeader&, Bytes, transport::SendListener* listener,
            std::uint64_t cookie) override {
    if (listener != nullptr) held.emplace_back(listener, cookie);
  }
  void let_out() {
    for (const auto& [listener, cookie] : std::exchange(held, {})) listener->sent(cookie);
  }
  void abandon() override { held.clear(); }
  bool flushed() const override { return held.empty(); }

  std::vector<std::pair<transport::SendListener*, std::uint64_t>> held;
};

// Rank 0 of two, and the frames that rank 1 sends it.
class GroupOfTwo : public ::testing::Test {
 protected:
  GroupOfTwo() {
    auto link = std::make_unique<HeldLink>(1);
    link_ = link.get();
    generation_->attach(1, std::move(link));
    group_ = std::make_shared<Group>(1, "world", reactor_, Members(generation_, {0, 1}));
    group_->open();
  }
  ~GroupOfTwo() override {
    group_->close();
    reactor_->run([this] { generation_->close(); });
  }
  std::shared_ptr<Work::State> submit(Request request) {
    return submit_to(group_, std::move(request));
  }
  static std::shared_ptr<Work::State> submit_to(const std::shared_ptr<Group>& group,
                                                Request request) {
    auto work = request.work = group->new_work(to_string(request.call));
    Group::submit(group, std::move(request));
    return work;
  }
  void peer_calls(const Call& call, std::uint32_t group = 1) {
    reactor_->run([&] {
      const transport::FrameHeader header{.type = frame::kCall, .sequence = 1, .group = group};
      EXPECT_TRUE(generation_->link_owner().received(1, header, encode(call), false));
    });
  }

  const std::shared_ptr<transport::Reactor> reactor_ = std::make_shared<transport::Reactor>();
  const std::shared_ptr<membership::Generation> generation_ =
      std::make_shared<membership::Generation>(
          membership::GenerationIdentity{.rank = 0, .size = 2});
  HeldLink* link_ = nullptr;
  std::shared_ptr<Group> group_;
};

// Rank 1 has named an algorithm, so it does not post; rank 0 does, and then calls as well.
TEST_F(GroupOfTwo, AnOperationIsNotOverBeforeWhatItPostedHasLeft) {
  const Call call{.operation = Operation::barrier};
  const auto work = submit({.call = call, .route = Route::links, .fingerprint = fingerprint(call)});
  reactor_->run([this] { EXPECT_EQ(link_->held.size(), 1U) << "it is sent from the input"; });
  peer_calls(call);
  reactor_->run([] {});
  EXPECT_FALSE(work->done()) << "its caller may free the input";
  reactor_->run([this] { link_->let_out(); });
  EXPECT_TRUE(reactor_->drive_until([&] { return work->done(); }, Deadline::in(5s)));
}

// A program may have thousands of groups: the calls of one do not pay for the others.
TEST_F(GroupOfTwo, AThousandOthersAreLookedAtNeitherBeforeNorLongAfterTheirCalls) {
  constexpr std::uint32_t kGroups = 1000;
  const auto looked_at = [this] {
    std::size_t count = 0;
    reactor_->run([&] { count = reactor_->pollables(); });
    return count;
  };
  const std::size_t alone = looked_at();
  std::vector<std::shared_ptr<Group>> others;
  for (std::uint32_t id = 2; id < 2 + kGroups; ++id) {
    others.push_back(std::make_shared<Group>(id, "other", reactor_, Members(generation_, {0, 1})));
    others.back()->open();
  }
  EXPECT_EQ(looked_at(), alone) << "none has been called";
  const Call call{.operation = Operation::barrier};
  std::vector<std::shared_ptr<Work::State>> works;
  for (const auto& group : others)
    works.push_back(
        submit_to(group, {.call = call, .route = Route::links, .fingerprint = fingerprint(call)}));
  EXPECT_EQ(looked_at(), alone + kGroups) << "each is in a call";
  for (const auto& group : others) peer_calls(call, group->id());
  reactor_->run([this] { link_->let_out(); });
  EXPECT_TRUE(reactor_->drive_until(
      [&] { return std::ranges::all_of(works, [](const auto& work) { return work->done(); }); },
      Deadline::in(20s)));
  const Deadline soon = Deadline::in(20s);
  while (looked_at() != alone && !soon.passed()) continue;
  EXPECT_EQ(looked_at(), alone) << "each has been idle for long";
  for (const auto& group : others) group->close();
}

TEST_F(GroupOfTwo, ADeadlineNamesTheRankThatDoesNotTakeItsMessages) {
  std::vector<float> values(1 << 16);
  Request request{.input = const_buffer_of(values), .output = buffer_of(values)};
  for (const Algorithm& algorithm : built_in_algorithms()) {
    if (algorithm.operation == Operation::broadcast && algorithm.name == "binomial")
      request.plan = make_plan(algorithm.build({.ranks = 2}), 2);
  }
  ASSERT_TRUE(request.plan);
  request.call = {.operation = Operation::broadcast,
                  .dtype = Dtype::f32,
                  .count = values.size(),
                  .algorithm = "binomial"};
  request.input_chunks = Partition::even(values.size(), request.plan->chunks);
  peer_calls(request.call);
  request.deadline = Deadline::in(50ms);
  const auto work = submit(std::move(request));
  const auto failure = failure_of([&] { work->wait(Deadline::in(5s)); });
  EXPECT_EQ(failure.fault, Fault::timed_out);
  EXPECT_EQ(failure.ranks, std::vector{1}) << failure.what;
  EXPECT_THAT(failure.what, HasSubstr("for rank 1 to take"));
  EXPECT_THAT(failure.what, HasSubstr("broadcast f32[65536]"));
}

}  // namespace
}  // namespace paceline::collective::testing
