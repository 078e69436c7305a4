#include "paceline/core/membership/generation/generation_port.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <latch>
#include <vector>

#include "paceline/core/job/job_impl.h"
#include "paceline/core/machine/virtual_network.h"
#include "paceline/core/membership/generation/generation_frames.h"
#include "tests/support/local_world.h"
#include "tests/support/mortal_link.h"

namespace paceline::membership {
namespace {

using namespace std::chrono_literals;
using machine::Actions;
using machine::Message;
using machine::Send;
using machine::Time;

constexpr std::uint32_t kPortGroup = 4711;
constexpr int kMembers = 3;
const LocalWorldOptions kTcp = {.share_memory = false};

// A token goes round the members; each adds one, writes down what it has seen and rests a while.
class Ring final : public machine::Machine {
 public:
  Ring(int member, std::uint32_t rounds) : member_(member), last_(rounds * kMembers) {}

  Actions on_message(int from, const Message& message, Time now) override {
    seen.push_back({from, message.index, message.payload.size()});
    token_ = message.index;
    return {machine::Arm{1, now + 1h}, machine::Arm{1, now + 100us}};  // the later choice alone
  }
  Actions on_timer(std::uint32_t, Time) override {
    if (token_ >= last_) {
      is_over = true;
      return {};
    }
    if (token_ + kMembers > last_) is_over = true;
    return {Send{(member_ + 1) % kMembers,
                 {.kind = 7, .index = token_ + 1, .payload = std::vector<std::byte>(token_)}}};
  }
  Actions on_lost(int peer, Time) override {
    lost.push_back(peer);
    return {};
  }

  std::vector<std::tuple<int, std::uint32_t, std::size_t>> seen;
  std::vector<int> lost;
  std::atomic<bool> is_over = false;

 private:
  const int member_;
  const std::uint32_t last_;
  std::uint32_t token_ = 0;
};

template <typename Done>
bool waits_for(Job& job, const Done& done) {
  return job.impl().reactor->drive_until([&] { return done(); }, Deadline::in(20s));
}

GenerationPort port_of(Job& job, machine::Machine& machine, const std::set<int>& may_be_lost = {}) {
  return {job.impl().reactor, job.impl().generation, kPortGroup, machine, may_be_lost};
}

TEST(GenerationPort, AMachineSeesOnLinksWhatItSeesInVirtualTime) {
  constexpr std::uint32_t kRounds = 20;
  std::vector<std::unique_ptr<Ring>> virtual_ones;
  machine::VirtualNetwork network(1, {});
  for (int member = 0; member < kMembers; ++member) {
    virtual_ones.push_back(std::make_unique<Ring>(member, kRounds));
    network.add(member, *virtual_ones.back());
  }
  network.tell(0, 0, {});
  network.run();
  for (const auto& options : {LocalWorldOptions(), kTcp}) {
    test::run_ranks(kMembers, options, [&](Job& job) {
      Ring ring(job.rank(), kRounds);
      {
        GenerationPort port = port_of(job, ring);
        if (job.rank() == 0) port.tell({});
        EXPECT_TRUE(waits_for(job, [&] { return ring.is_over.load(); })) << job.rank();
        job.impl().reactor->run([&] { EXPECT_TRUE(ring.lost.empty()); });
        job.world().barrier().wait();  // nobody leaves before the last message is there
      }
      EXPECT_EQ(ring.seen, virtual_ones[static_cast<std::size_t>(job.rank())]->seen);
    });
  }
}

// Says nothing, and counts whom it has lost.
class Mourner final : public machine::Machine {
 public:
  Actions on_message(int, const Message&, Time) override {
    ++messages;
    return {};
  }
  Actions on_timer(std::uint32_t, Time) override { return {}; }
  Actions on_lost(int peer, Time) override {
    lost |= 1U << static_cast<unsigned>(peer);
    return {};
  }
  std::atomic<unsigned> lost = 0, messages = 0;
};

TEST(GenerationPort, OnlyALossThatIsBorneFailsNobody) {
  for (const bool is_borne : {true, false}) {
    test::Life life;
    std::latch all_are_ready(kMembers);
    test::run_ranks(kMembers, test::with_mortal_rank(kTcp, 2, life), [&](Job& job) {
      const auto rest = job.world().split(job.rank() == 2 ? 1 : 0);
      Mourner mourner;
      const GenerationPort port =
          port_of(job, mourner, is_borne ? std::set<int>{2} : std::set<int>{});
      all_are_ready.arrive_and_wait();
      if (job.rank() == 2) return life.end(job);
      EXPECT_TRUE(waits_for(job, [&] { return (mourner.lost & 4U) != 0; }));
      if (!is_borne) {
        EXPECT_EQ(mourner.lost, job.rank() == 0 ? 6U : 5U) << "all are lost with the generation";
        EXPECT_THROW(rest->barrier().wait(), Error);
        return;
      }
      EXPECT_EQ(mourner.lost, 4U);
      EXPECT_FALSE(job.impl().generation->failure());
      for (int again = 0; again < 3; ++again)
        EXPECT_EQ(rest->all_reduce(job.rank() + 1.0), 3.0) << "the others go on";
      // A call that waits for the lost one names it.
      try {
        job.world().barrier().wait(Deadline::in(20s));
        ADD_FAILURE() << "ended without rank 2";
      } catch (const Error& error) {
        EXPECT_EQ(error.failure().ranks, std::vector{2}) << error.what();
        EXPECT_THAT(error.what(), testing::HasSubstr("rank 2 was lost"));
      }
    });
  }
}

// Drops each member that sends it a message of kind 1.
class Guard final : public machine::Machine {
 public:
  Actions on_message(int from, const Message& message, Time) override {
    ++messages;
    if (message.kind != 1) return {};
    return {Send{from, {.kind = 2}}, machine::Drop{from, {Fault::io, "not here", {from}}}};
  }
  Actions on_timer(std::uint32_t, Time) override { return {}; }
  Actions on_lost(int peer, Time) override {
    lost = peer;
    return {};
  }
  std::atomic<int> messages = 0, lost = -1;
};

TEST(GenerationPort, APeerThatIsDroppedHearsWhatWasSentBeforeAndSaysNothingAnyMore) {
  struct Caller final : machine::Machine {
    Actions on_message(int from, const Message& message, Time) override {
      if (from == 1) return {Send{0, {.kind = 1}}, Send{0, {.kind = 3}}};
      answers += message.kind == 2 ? 1 : 100;
      return {};
    }
    Actions on_timer(std::uint32_t, Time) override { return {}; }
    Actions on_lost(int peer, Time) override {
      lost = peer;
      return {};
    }
    std::atomic<int> answers = 0, lost = -1;
  };
  test::run_ranks(2, [&](Job& job) {
    Guard guard;
    Caller caller;
    machine::Machine& mine = job.rank() == 0 ? static_cast<machine::Machine&>(guard) : caller;
    GenerationPort port = port_of(job, mine);
    job.world().barrier().wait();
    if (job.rank() == 1) {
      port.tell({});
      EXPECT_TRUE(waits_for(job, [&] { return caller.lost == 0; }));
      EXPECT_EQ(caller.answers, 1);
      std::optional<Failure> why;
      job.impl().reactor->run([&] { why = port.dropped_by(0); });
      ASSERT_TRUE(why);
      EXPECT_EQ(why->what, "not here");
      EXPECT_EQ(why->ranks, std::vector{1});
    }
    job.world().barrier().wait();
    EXPECT_EQ(guard.messages, job.rank() == 0 ? 1 : 0) << "the second came from a dropped peer";
    job.world().barrier().wait();
  });
}

// Rank 1 sends frames that no GenerationPort sends: pieces of a message that do not fit together.
TEST(GenerationPort, PiecesThatDoNotFitTogetherEndTheRunAndNameTheirSender) {
  struct Piece {
    std::size_t bytes;
    std::uint64_t missing;  // bytes that are said to follow
    transport::FrameType type = frame::kMachine;
  };
  const std::vector<std::vector<Piece>> misfits = {
      {{10, 100}, {95, 4}},   // a byte is lost
      {{10, 100}, {101, 0}},  // one too many
      {{10, 100}, {60, 50}},  // another sum
      {{10, 100}, {0, 100}},  // it would go on for ever
      {{10, 0, transport::FrameType::data}}};
  for (const std::vector<Piece>& pieces : misfits) {
    test::run_ranks(2, kTcp, [&](Job& job) {
      Mourner mourner;
      const GenerationPort port = port_of(job, mourner);
      job.world().barrier().wait();
      if (job.rank() == 1) {
        job.impl().reactor->run([&] {
          for (const Piece& piece : pieces)
            job.impl().generation->link(0)->send(
                {.type = piece.type, .descriptor = piece.missing, .group = kPortGroup},
                std::vector<std::byte>(piece.bytes));
        });
      }
      EXPECT_TRUE(waits_for(job, [&] { return mourner.lost != 0; }));
      const auto failure = job.impl().generation->failure();
      ASSERT_TRUE(failure);
      EXPECT_EQ(failure->ranks, std::vector{1}) << failure->what;
      EXPECT_THAT(failure->what, testing::HasSubstr("rank 1 sent a"));
      EXPECT_EQ(mourner.messages, 0u) << "no part of it is a message";
    });
  }
}

TEST(GenerationPort, ANumberThatIsInUseIsMisuse) {
  test::run_ranks(1, [](Job& job) {
    Mourner one, two;
    const GenerationPort port = port_of(job, one);
    EXPECT_THROW((void)port_of(job, two), Error);
  });
}

}  // namespace
}  // namespace paceline::membership
