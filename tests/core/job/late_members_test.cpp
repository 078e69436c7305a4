// Servers of a job with replicas that die, and those that come in their place, as threads of this
// process with links as between processes.
#include "paceline/core/job/late_members.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>
#include <functional>
#include <latch>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "paceline/core/collective/group/communicator.h"
#include "paceline/core/job/joining.h"
#include "paceline/core/membership/generation/generation_port.h"
#include "paceline/core/membership/store/endpoint.h"
#include "paceline/core/transport/fabric/fabric_plugin.h"
#include "tests/core/membership/store_world.h"

namespace paceline::job {
namespace {

using namespace std::chrono_literals;
using machine::Actions;
using machine::Message;
using machine::Send;
using machine::Time;
using membership::Environment;
using membership::GenerationPort;
using membership::TransportChoice;
using test::soon;
using test::StoreWorld;
using ::testing::HasSubstr;

constexpr int kRanks = 2, kServers = 3, kFounders = kRanks + kServers;
constexpr std::uint32_t kGroup = 4712;

Environment member_of(const StoreWorld& world, int member, TransportChoice transport) {
  Environment e;
  const bool serves = member >= kRanks;
  e.rank = e.local_rank = serves ? -1 : member;
  e.world_size = e.local_world_size = kRanks;
  e.servers = kServers;
  e.server_index = serves ? member - kRanks : -1;
  e.replicas = 2;
  e.job = "test";
  e.generation = 2;
  e.store = world.address;
  e.secret = world.secret;
  e.transport = transport;
  e.start_timeout = 20s;
  return e;
}

// Answers each message of kind 1 by one of kind 2, and knows who has answered and who is lost.
class Answering final : public machine::Machine {
 public:
  Actions on_message(int from, const Message& message, Time) override {
    if (message.kind == 0) return {Send{static_cast<int>(message.index), {.kind = 1}}};
    if (message.kind == 1) return {Send{from, {.kind = 2}}};
    answered |= 1U << static_cast<unsigned>(from);
    return {};
  }
  Actions on_timer(std::uint32_t, Time) override { return {}; }
  Actions on_lost(int peer, Time) override {
    lost |= 1U << static_cast<unsigned>(peer);
    return {};
  }
  std::atomic<unsigned> answered = 0, lost = 0;
};

constexpr unsigned bit(int member) {
  return 1U << static_cast<unsigned>(member);
}
constexpr unsigned bits(int members) {
  return (1U << static_cast<unsigned>(members)) - 1;
}

// A member, whose machine has a port among all members of the beginning.
class Member {
 public:
  Member(const StoreWorld& world, int number, TransportChoice transport)
      : job_(join(member_of(world, number, transport))),
        port_(std::in_place, job_.impl().reactor, job_.impl().generation, kGroup, machine,
              std::set<int>(), founders()) {}

  // It says no word, as a killed process does.
  void die() {
    impl().reactor->run([this] { impl().generation->close(); });
  }
  void ask(int member) { port_->tell({.kind = 0, .index = static_cast<std::uint32_t>(member)}); }
  void has_answer_of(int member) {
    ask(member);
    test::wait_until([&] { return (machine.answered & bit(member)) != 0; });
  }
  void has_lost(int member) {
    test::wait_until([&] { return (machine.lost & bit(member)) != 0; });
  }
  bool is_well() { return !impl().generation->failure(); }
  void leave() { port_.reset(); }
  Job& job() { return job_; }
  Job::Impl& impl() { return job_.impl(); }

  Answering machine;

 private:
  static std::set<int> founders() {
    std::set<int> all;
    for (int member = 0; member < kFounders; ++member) all.insert(member);
    return all;
  }

  Job job_;
  std::optional<GenerationPort> port_;
};

// The members of the beginning, each in a thread of its own; `body` runs when all are linked, and
// they end when all have ended it.
void run_members(StoreWorld& world, TransportChoice transport,
                 const std::function<void(Member&, int number)>& body) {
  std::latch all_are_there(kFounders), over(kFounders);
  std::vector<std::jthread> threads;
  for (int number = 0; number < kFounders; ++number) {
    threads.emplace_back([&, number] {
      Member member(world, number, transport);
      all_are_there.arrive_and_wait();
      body(member, number);
      over.arrive_and_wait();
    });
  }
}

// A server that dies, as a launcher tells of it.
void kill(StoreWorld& world, Member& member, int number) {
  member.die();
  world.post([number](membership::StoreServer& store) { store.bury(number); });
}
void expect(StoreWorld& world, int member) {
  world.post([member](membership::StoreServer& store) { store.expect(member); });
}

// The address at which a member listens.
transport::TcpAddress door_of(StoreWorld& world, int member) {
  const int spectator = 100 + member;
  expect(world, spectator);
  const auto published =
      world.client(spectator)->get(fmt::format("endpoint/{}", member), soon()).value();
  return transport::parse_tcp_address(membership::decode_endpoint(published, member).value().tcp)
      .value();
}

void shut_door(Member& member) {
  member.impl().reactor->run([&] { member.impl().late_members.reset(); });
}

// Waits for a visitor at a door that nobody answers any more, and lets it stand outside.
void turn_away(const transport::TcpAddress& door) {
  const auto listener = transport::listen_tcp(door).value();
  EXPECT_TRUE(transport::wait_for(listener.get(), POLLIN, soon()));
  EXPECT_TRUE(transport::accept(listener.get()));
}

std::vector<TransportChoice> all_transports() {
  std::vector<TransportChoice> all = {TransportChoice::automatic, TransportChoice::shm,
                                      TransportChoice::tcp};
  if (transport::load_fabric("ucx")) all.push_back(TransportChoice::ucx);
  return all;
}

TEST(LateMembers, AServerThatDiesIsLostToMachinesAloneAndTheNextOneSpeaksToAllThatLive) {
  constexpr int kDead = kRanks + 1, kLate = kFounders;
  for (const auto transport : all_transports()) {
    SCOPED_TRACE(static_cast<int>(transport));
    StoreWorld world(kRanks, kServers);
    std::atomic<bool> is_dead = false, has_come = false;
    std::latch ended(kFounders + 1);
    std::jthread late([&] {
      test::wait_until([&] { return is_dead.load(); });
      expect(world, kLate);
      Member member(world, kLate, transport);
      EXPECT_EQ(member.impl().generation->identity().name_of(kLate), "server 3");
      EXPECT_EQ(member.job().world_size(), kRanks);
      has_come = true;
      member.has_lost(kDead);
      for (int other = 0; other < kFounders; ++other)
        if (other != kDead) member.has_answer_of(other);
      EXPECT_EQ(member.machine.lost, bit(kDead));
      EXPECT_TRUE(member.is_well());
      ended.arrive_and_wait();
    });
    run_members(world, transport, [&](Member& member, int number) {
      const auto end = [&] { ended.arrive_and_wait(); };
      if (number == kDead) {
        kill(world, member, number);
        is_dead = true;
        return end();
      }
      member.has_lost(kDead);
      EXPECT_EQ(member.machine.lost, bit(kDead));
      const auto sum = [&] {
        if (number < kRanks) {
          EXPECT_EQ(member.job().world().all_reduce(number + 1.0), 3.0);
        }
      };
      sum();
      test::wait_until([&] { return has_come.load(); });
      member.has_answer_of(kLate);  // at once: its link is here before it knows so itself
      sum();
      EXPECT_TRUE(member.is_well());
      end();
    });
    EXPECT_TRUE(world.reports().empty()) << world.reports()[0].failure.what;
    test::wait_until([&] { return world.linked().size() == kFounders + 1U; });
    EXPECT_EQ(world.linked().back(), kLate);
  }
}

// Two places are empty at once, and then one of the newcomers dies too.
TEST(LateMembers, NewcomersThatComeTogetherSpeakToEachOther) {
  for (const auto transport : {TransportChoice::automatic, TransportChoice::tcp}) {
    StoreWorld world(kRanks, kServers);
    std::latch are_dead(2), have_spoken(kFounders + 1);
    std::vector<std::jthread> late;
    for (const int number : {kFounders, kFounders + 1}) {
      late.emplace_back([&, number] {
        are_dead.wait();
        expect(world, number);
        Member member(world, number, transport);
        const int other = 2 * kFounders + 1 - number;
        const bool dies = number == kFounders + 1;
        // The lower one hears of the higher one when that one has come.
        if (dies) member.has_answer_of(other);
        for (const int peer : {0, 1, kRanks}) member.has_answer_of(peer);
        if (dies) return kill(world, member, number);
        member.has_lost(other);
        EXPECT_EQ(member.machine.lost, bit(kRanks + 1) | bit(kRanks + 2) | bit(other));
        have_spoken.arrive_and_wait();
      });
    }
    run_members(world, transport, [&](Member& member, int number) {
      if (number > kRanks) {
        kill(world, member, number);
        are_dead.count_down();
      } else {
        for (int dead = kRanks + 1; dead < kFounders; ++dead) member.has_lost(dead);
        member.has_lost(kFounders + 1);
        EXPECT_TRUE(member.is_well());
      }
      have_spoken.arrive_and_wait();
    });
    EXPECT_TRUE(world.reports().empty()) << world.reports()[0].failure.what;
  }
}

TEST(LateMembers, APortThatIsMadeLaterKnowsWhoHasComeAndGone) {
  StoreWorld world(kRanks, kServers);
  std::atomic<bool> is_gone = false;
  std::latch are_checked(kFounders);
  std::jthread late([&] {
    test::wait_until([&] { return world.linked().size() == kFounders; });
    expect(world, kFounders);
    Member member(world, kFounders, TransportChoice::automatic);
    kill(world, member, kFounders);
    is_gone = true;
  });
  run_members(world, TransportChoice::automatic, [&](Member& member, int) {
    test::wait_until([&] { return is_gone.load(); });
    member.has_lost(kFounders);
    Answering of_all, of_ranks;
    Job::Impl& impl = member.impl();
    const GenerationPort all(impl.reactor, impl.generation, kGroup + 1, of_all, {},
                             {0, 1, kRanks, kRanks + 1, kRanks + 2});
    impl.reactor->run([&] { EXPECT_EQ(of_all.lost, bit(kFounders)); });
    const GenerationPort ranks(impl.reactor, impl.generation, kGroup + 2, of_ranks, {}, {0, 1});
    impl.reactor->run([&] { EXPECT_EQ(of_ranks.lost, 0U) << "it is none of these"; });
    are_checked.arrive_and_wait();
  });
}

// Ranks end while it comes: it hears that they have left, and does not wait for them.
TEST(LateMembers, ANewcomerFindsRanksThatHaveLeftDeparted) {
  StoreWorld world(kRanks, kServers);
  std::latch rank_has_left(1), over(1);
  std::jthread late([&] {
    rank_has_left.wait();
    expect(world, kFounders);
    Member member(world, kFounders, TransportChoice::automatic);
    member.has_lost(0);
    EXPECT_EQ(member.machine.lost & bits(kRanks), bit(0));
    over.count_down();
  });
  std::vector<std::jthread> threads;
  std::latch all_are_there(kFounders);
  for (int number = 0; number < kFounders; ++number) {
    threads.emplace_back([&, number] {
      {
        Member member(world, number, TransportChoice::automatic);
        all_are_there.arrive_and_wait();
        if (number != 0) return over.wait();
        member.leave();
      }
      rank_has_left.count_down();
    });
  }
  threads.clear();
  EXPECT_TRUE(world.reports().empty()) << world.reports()[0].failure.what;
}

// The launcher knows sooner than others that a member is gone, or only later.
TEST(LateMembers, ANewcomerTriesAgainUntilItHearsThatAMemberIsGone) {
  StoreWorld world(kRanks, kServers);
  std::latch is_shut(1), over(1);
  std::jthread late([&] {
    is_shut.wait();
    expect(world, kFounders);
    Member member(world, kFounders, TransportChoice::tcp);
    EXPECT_EQ(member.machine.lost, bit(kFounders - 1));
    over.count_down();
  });
  run_members(world, TransportChoice::tcp, [&](Member& member, int number) {
    if (number == kFounders - 1) {
      const auto door = door_of(world, number);
      shut_door(member);
      is_shut.count_down();
      member.die();
      turn_away(door);
      turn_away(door);
      world.post([number](membership::StoreServer& store) { store.bury(number); });
    }
    over.wait();
  });
}

TEST(LateMembers, AVerdictEndsTheComingOfAServer) {
  const Failure verdict{Fault::peer_lost, "rank 0 was killed by signal 9", {0}};
  StoreWorld world(kRanks, kServers);
  std::latch is_shut(1), over(1);
  std::jthread late([&] {
    is_shut.wait();
    expect(world, kFounders);
    try {
      const Member member(world, kFounders, TransportChoice::tcp);
      ADD_FAILURE() << "it came";
    } catch (const Error& error) {
      EXPECT_EQ(error.failure(), verdict);
    }
    over.count_down();
  });
  run_members(world, TransportChoice::tcp, [&](Member& member, int number) {
    if (number == 0) {
      const auto door = door_of(world, number);
      shut_door(member);
      is_shut.count_down();
      turn_away(door);
      world.tell(verdict);
    }
    over.wait();
  });
}

// Nobody waits for it.
TEST(LateMembers, ANewcomerThatFailsHarmsNobody) {
  StoreWorld world(kRanks, kServers);
  std::latch over(1);
  std::jthread late([&] {
    test::wait_until([&] { return world.linked().size() == kFounders; });
    expect(world, kFounders);
    Environment e = member_of(world, kFounders, TransportChoice::automatic);
    e.reproducible = false;
    try {
      (void)join(e);
      ADD_FAILURE() << "it came";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("the ranks differ in their determinism"));
    }
    over.count_down();
  });
  run_members(world, TransportChoice::automatic, [&](Member& member, int number) {
    over.wait();
    if (number < kRanks) {
      EXPECT_EQ(member.job().world().all_reduce(number + 1.0), 3.0);
    }
    EXPECT_TRUE(member.is_well());
  });
}

TEST(LateMembers, ADoorLetsInWhoIsLateAndEachOnce) {
  StoreWorld world(kRanks, kServers);
  run_members(world, TransportChoice::tcp, [&](Member& member, int number) {
    if (number != 1) return;
    const auto door = door_of(world, number);
    const auto comes = [&](int as) {
      auto socket = transport::connect_tcp(door, soon()).value();
      membership::Hello own = world.hello(as);
      own.purpose = membership::Purpose::peer;
      own.target = number;
      EXPECT_TRUE(introduce(socket.get(), own, world.secret, soon()));
      return await_admission(socket, false, soon(), [] {}).has_value();
    };
    EXPECT_FALSE(comes(kRanks)) << "a server of the beginning";
    EXPECT_FALSE(comes(number));
    EXPECT_TRUE(comes(kFounders + 6));
    EXPECT_FALSE(comes(kFounders + 6));
    member.has_lost(kFounders + 6);
    EXPECT_FALSE(comes(kFounders + 6)) << "nobody comes back";
    member.impl().reactor->run([&] { member.impl().generation->fail({Fault::io, "no disk", {}}); });
    EXPECT_FALSE(comes(kFounders + 7)) << "it is over";
  });
}

}  // namespace
}  // namespace paceline::job
