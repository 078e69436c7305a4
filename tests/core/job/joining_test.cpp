// Also covers paceline/core/job/store_connection.h.
#include "paceline/core/job/joining.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <map>

#include "paceline/core/membership/environment/configuration.h"
#include "paceline/core/membership/store/endpoint.h"
#include "paceline/core/transport/fabric/fabric_plugin.h"
#include "tests/core/membership/store_world.h"
#include "tests/core/membership/strangers.h"
#include "tests/support/process.h"

namespace paceline::job {
namespace {

using namespace membership;

using namespace std::chrono_literals;
using test::soon;
using test::StoreWorld;

Environment environment(const StoreWorld& world, int rank, int world_size,
                        TransportChoice transport) {
  Environment e;
  e.rank = e.local_rank = rank;
  e.world_size = e.local_world_size = world_size;
  e.job = "test";
  e.generation = 2;
  e.store = world.address;
  e.secret = world.secret;
  e.transport = transport;
  e.start_timeout = 20s;
  return e;
}

std::optional<Failure> failure_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.failure();
  }
  return std::nullopt;
}

// Each rank in a thread of its own.
void run_ranks(int count, const std::function<void(int)>& body) {
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < count; ++rank) threads.emplace_back([&, rank] { body(rank); });
}

// UCX where its plugin was built.
std::vector<TransportChoice> with_ucx(std::vector<TransportChoice> choices) {
  if (transport::load_fabric("ucx")) choices.push_back(TransportChoice::ucx);
  return choices;
}

TEST(Rendezvous, AllRanksMeetAndLeaveOverEveryTransport) {
  for (const auto transport :
       with_ucx({TransportChoice::automatic, TransportChoice::shm, TransportChoice::tcp})) {
    StoreWorld world(4);
    std::atomic<int> met = 0;
    run_ranks(4, [&](int rank) {
      const auto job = join(environment(world, rank, 4, transport));
      job->reactor->run([&] {
        for (int peer = 0; peer < 4; ++peer)
          EXPECT_EQ(job->generation->link(peer) == nullptr, peer == rank);
      });
      const bool share = transport < TransportChoice::tcp;
      EXPECT_EQ(job->generation->shares_memory(), share);
      const bool may_have_a_fabric =  // where there is RDMA
          transport == TransportChoice::ucx || transport == TransportChoice::automatic;
      EXPECT_TRUE(may_have_a_fabric || job->fabric == nullptr);
      EXPECT_TRUE(transport != TransportChoice::ucx || job->fabric != nullptr);
      const Hosts& hosts = job->generation->hosts();
      EXPECT_EQ(hosts.of_ranks, std::vector<int>(4, 0));
      EXPECT_EQ(hosts.pools, Hosts::this_one(4, true).pools);
      EXPECT_EQ(hosts.share_memory, share);
      ++met;
      test::wait_until([&] { return met == 4; });
    });
    EXPECT_EQ(met, 4);
    EXPECT_TRUE(world.reports().empty()) << world.reports()[0].failure.what;
  }
}

// They make no look at devices else, which would begin a driver.
TEST(Rendezvous, RanksTellTheirDevicesWhereACarrierDependsOnThem) {
  for (const bool reproducible : {true, false}) {
    StoreWorld world(2);
    std::atomic<int> met = 0;
    run_ranks(2, [&](int rank) {
      Environment own = environment(world, rank, 2, TransportChoice::tcp);
      own.reproducible = reproducible;
      const auto job = join(own);
      EXPECT_EQ(job->generation->hosts().devices.size(), reproducible ? 0U : 2U);
      ++met;
      test::wait_until([&] { return met == 2; });
    });
  }
}

// A rank that is done says goodbye: no rank may take that for a death, however quickly it goes.
TEST(Rendezvous, ARankThatEndsAtOnceHasLeftAndIsNotLost) {
  for (int round = 0; round < 20; ++round) {
    StoreWorld world(2);
    const auto choices = with_ucx({TransportChoice::shm, TransportChoice::tcp});
    run_ranks(2, [&](int rank) {
      const auto job = join(
          environment(world, rank, 2, choices[static_cast<std::size_t>(round) % choices.size()]));
      if (rank == 0) return;
      std::atomic<bool> left = false;
      EXPECT_TRUE(job->reactor->drive_until(
          [&] {
            if (job->reactor->driven_by_this_thread()) left = job->generation->has_departed(0);
            return left.load();
          },
          soon()));
      EXPECT_FALSE(job->generation->failure());
    });
    EXPECT_TRUE(world.reports().empty());
  }
}

TEST(Rendezvous, RanksThatAreSetDifferentlyAreRefusedAtTheStart) {
  for (int odd = 0; odd < 3; ++odd) {
    StoreWorld world(3);
    run_ranks(3, [&](int rank) {
      Environment e = environment(world, rank, 3, TransportChoice::automatic);
      e.reproducible = rank != odd;
      const auto failure = failure_of([&] { (void)join(e); });
      ASSERT_TRUE(failure.has_value());
      EXPECT_EQ(failure->fault, Fault::mismatch) << failure->what;
      EXPECT_NE(failure->what.find("the ranks differ in their determinism"), std::string::npos)
          << failure->what;
      EXPECT_NE(failure->what.find(fmt::format("rank {} has fast", odd)), std::string::npos)
          << failure->what;
    });
  }
}

TEST(Rendezvous, EveryRankHasTheProfileThatRank0Read) {
  StoreWorld world(3);
  const std::string path = fmt::format("{}/profile.{}", ::testing::TempDir(), ::getpid());
  std::ofstream(path) << "what rank 0 measured";
  run_ranks(3, [&](int rank) {
    Environment e = environment(world, rank, 3, TransportChoice::automatic);
    e.profile_file = rank == 0 ? path : "/no/such/file";
    const auto job = join(e);
    EXPECT_EQ(job->profile, "what rank 0 measured");
  });
  std::filesystem::remove(path);
}

TEST(Rendezvous, AProfileThatCannotBeReadIsNamedWithTheRemedy) {
  Environment alone;
  alone.profile_file = "/no/such/file";
  const auto failure = failure_of([&] { (void)join(alone); });
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->fault, Fault::misuse);
  EXPECT_EQ(failure->what,
            "PACELINE_PROFILE=/no/such/file is no file of 1 to 16384 bytes that can be read; write "
            "one with: paceline bench calibrate --output FILE");
}

// One thread for each rank, with the processors of `of_rank`; returns the first rank's knowledge.
Hosts hosts_of_ranks_on(const std::vector<int>& of_rank) {
  const int ranks = static_cast<int>(of_rank.size());
  StoreWorld world(ranks);
  std::atomic<int> met = 0;
  Hosts hosts;
  run_ranks(ranks, [&](int rank) {
    cpu_set_t own;
    CPU_ZERO(&own);
    CPU_SET(static_cast<std::size_t>(of_rank[static_cast<std::size_t>(rank)]), &own);
    EXPECT_EQ(::sched_setaffinity(0, sizeof own, &own), 0);
    const auto job = join(environment(world, rank, ranks, TransportChoice::automatic));
    if (rank == 0) hosts = job->generation->hosts();
    ++met;
    test::wait_until([&] { return met == ranks; });
  });
  return hosts;
}

TEST(Rendezvous, RanksKnowWhichOfThemShareProcessors) {
  const ProcessorSet allowed = own_processors().allowed;
  std::vector<int> usable;
  for (int i = 0; usable.size() < 2 && i < 8192; ++i) {
    ProcessorSet one;
    one.insert(i);
    if (allowed.meets(one)) usable.push_back(i);
  }
  const Hosts same = hosts_of_ranks_on({usable[0], usable[0]});
  EXPECT_EQ(same.pools, (std::vector<ProcessorPool>{{{0, 1}, 1}}));
  EXPECT_TRUE(same.is_crowded(0));
  if (usable.size() < 2) return;  // a machine of one processor
  const Hosts apart = hosts_of_ranks_on({usable[0], usable[1], usable[0]});
  EXPECT_EQ(apart.pools, (std::vector<ProcessorPool>{{{0, 2}, 1}, {{1}, 1}}));
  EXPECT_TRUE(apart.is_crowded(2));
  EXPECT_FALSE(apart.is_crowded(1));
}

TEST(Rendezvous, AMissingRankIsNamed) {
  StoreWorld world(2);
  Environment e = environment(world, 0, 2, TransportChoice::automatic);
  e.start_timeout = 1s;
  const auto failure = failure_of([&] { (void)join(e); });
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->fault, Fault::timed_out);
  EXPECT_EQ(failure->ranks, std::vector{1});
  EXPECT_EQ(failure->what,
            "rank 1 has not joined within 1 s (PACELINE_START_TIMEOUT, `paceline run "
            "--start-timeout`); did its process start, and does it call paceline::init()?");
  test::wait_until([&] { return !world.reports().empty(); });
  EXPECT_EQ(world.reports()[0].failure, *failure);
}

// The launcher, which sees it in its store, does not tell of it.
TEST(Rendezvous, ARankThatHasComeToTheStoreAndDoesNotGoOnIsToldAtTheStallTime) {
  StoreWorld world(3);
  const auto stopped = world.client(1);
  stopped->set("here/1", {});
  Environment e = environment(world, 0, 3, TransportChoice::automatic);
  e.stall_time = 20ms;
  e.start_timeout = 2s;
  ::testing::internal::CaptureStderr();
  const auto failure = failure_of([&] { (void)join(e); });
  const std::string told = ::testing::internal::GetCapturedStderr();
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->ranks, (std::vector{1, 2}));
  EXPECT_NE(told.find("rank 0 waits for rank 1, which has come to the job's store and not gone on"),
            std::string::npos)
      << told;
}

// Stands before a store: it closes the first visitor after `bytes` bytes of his, as a store that
// has to make room does, and then lets all pass.
class Doorkeeper {
 public:
  Doorkeeper(const std::string& store, std::size_t bytes)
      : listener_(transport::listen_tcp({"127.0.0.1", 0}).value()),
        thread_([this, store, bytes](const std::stop_token& stop) {
          for (bool first = true; !stop.stop_requested(); first = false) {
            auto visitor = next(stop);
            if (!visitor.is_open()) return;
            auto inner =
                transport::connect_tcp(transport::parse_tcp_address(store).value(), soon());
            pass(stop, visitor.get(), inner->get(), first ? bytes : SIZE_MAX);
          }
        }) {}

  std::string address() const {
    return transport::to_string(transport::local_address(listener_.get()).value());
  }

 private:
  transport::FileDescriptor next(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      if (!transport::wait_for(listener_.get(), POLLIN, Deadline::in(5ms))) continue;
      auto visitor = transport::accept(listener_.get());
      if (visitor && visitor->is_open()) return std::move(*visitor);
    }
    return {};
  }
  static void pass(const std::stop_token& stop, int visitor, int store, std::size_t bytes) {
    std::array<std::byte, 4096> piece;
    while (!stop.stop_requested()) {
      std::array<pollfd, 2> ends{pollfd{visitor, POLLIN, 0}, pollfd{store, POLLIN, 0}};
      ::poll(ends.data(), ends.size(), 5);
      for (const auto& [from, to] : {std::pair{0, store}, std::pair{1, visitor}}) {
        if (ends[static_cast<std::size_t>(from)].revents == 0) continue;
        const auto got =
            ::recv(ends[static_cast<std::size_t>(from)].fd, piece.data(), piece.size(), 0);
        if (got <= 0) return;
        if (from == 0 && bytes <= static_cast<std::size_t>(got)) return;
        if (from == 0) bytes -= static_cast<std::size_t>(got);
        (void)transport::send_all(to, Bytes(piece).first(static_cast<std::size_t>(got)), soon());
      }
    }
  }

  transport::FileDescriptor listener_;
  std::jthread thread_;
};

TEST(Rendezvous, ARankThatAFloodedStoreClosedTriesOnceMore) {
  constexpr std::size_t kInHello = 10, kInProof = 80;  // a hello has 72 bytes, a proof 32
  for (const std::size_t bytes : {kInHello, kInProof}) {
    StoreWorld world(2);
    const Doorkeeper door(world.address, bytes);
    run_ranks(2, [&](int rank) {
      Environment e = environment(world, rank, 2, TransportChoice::automatic);
      if (rank == 1) e.store = door.address();
      const auto failure = failure_of([&] { (void)join(e); });
      EXPECT_FALSE(failure) << failure->what;
    });
  }
}

TEST(Rendezvous, AWrongSecretIsRefused) {
  StoreWorld world(2);
  Environment e = environment(world, 0, 2, TransportChoice::automatic);
  e.secret = Secret::random();
  EXPECT_EQ(failure_of([&] { (void)join(e); })->fault, Fault::refused);
}

TEST(Rendezvous, AnotherWorldSizeIsAMismatch) {
  StoreWorld world(2);
  const auto failure =
      failure_of([&] { (void)join(environment(world, 0, 3, TransportChoice::automatic)); });
  EXPECT_EQ(failure->fault, Fault::mismatch);
}

TEST(Rendezvous, RanksWithoutACommonTransportAreTold) {
  for (const auto other : with_ucx({TransportChoice::shm, TransportChoice::tcp})) {
    const auto own = other == TransportChoice::tcp ? TransportChoice::shm : TransportChoice::tcp;
    StoreWorld world(2);
    run_ranks(2, [&](int rank) {
      const auto failure =
          failure_of([&] { (void)join(environment(world, rank, 2, rank == 0 ? other : own)); });
      if (rank == 0) return;
      ASSERT_TRUE(failure);
      EXPECT_EQ(failure->fault, Fault::mismatch);
      EXPECT_NE(failure->what.find("no transport in common"), std::string::npos);
      world.tell(*failure);  // as the launcher does with the first report
    });
  }
}

void publish(StoreClient& client, int rank, const std::string& tcp, const Environment& like) {
  client.set("endpoint/" + std::to_string(rank), encode({.host = "elsewhere",
                                                         .tcp = tcp,
                                                         .configuration = configuration_of(like),
                                                         .processors = own_processors()}));
}

// A peer died after it had told where it listens: no process answers there, but the launcher knows.
TEST(Rendezvous, AVerdictEndsTheSearchForARankThatDied) {
  const Failure verdict{Fault::peer_lost, "rank 0 was killed by signal 9", {0}};
  for (const int rank : {0, 1}) {
    StoreWorld world(2);
    const auto dead = world.client(1 - rank);
    publish(*dead, 1 - rank, "127.0.0.1:1",
            environment(world, rank, 2, TransportChoice::tcp));  // no process listens there
    std::jthread launcher([&] {
      EXPECT_TRUE(dead->get("endpoint/" + std::to_string(rank), soon()));
      world.tell(verdict);
    });
    const auto begin = Clock::now();
    const auto failure =
        failure_of([&] { (void)join(environment(world, rank, 2, TransportChoice::tcp)); });
    EXPECT_EQ(failure, verdict);
    EXPECT_LT(Clock::now() - begin, 5s);
  }
}

// S3, at the store: a stranger on the job's network opens connections without end, and says nothing
// or one byte on each.
TEST(Rendezvous, RanksMeetWhileAStrangerFloodsTheStore) {
  constexpr int kAtMost = 10000;  // a host has a limited number of ports
  StoreWorld world(4);
  test::Strangers strangers(transport::parse_tcp_address(world.address).value(), {"127.0.0.66"});
  strangers.come(400);
  std::jthread flood([&](const std::stop_token& stop) {
    for (int come = 0; come < kAtMost && !stop.stop_requested(); come += 50)
      strangers.come(50, 400);
  });
  std::atomic<int> met = 0;
  run_ranks(4, [&](int rank) {
    const auto job = join(environment(world, rank, 4, TransportChoice::tcp));
    ++met;
    test::wait_until([&] { return met == 4; });
  });
  EXPECT_EQ(met, 4);
  EXPECT_TRUE(world.reports().empty()) << world.reports()[0].failure.what;
}

// The address at which rank 0 listens for its peers, as it published it.
transport::TcpAddress door_of_rank_0(StoreClient& client) {
  const auto published = client.get("endpoint/0", soon()).value();
  return transport::parse_tcp_address(decode_endpoint(published, 0).value().tcp).value();
}

// S3, at a rank's own door, where the test plays rank 1.
TEST(Rendezvous, APeerGetsInWhileStrangersCrowdARanksDoor) {
  StoreWorld world(2);
  const Environment e = environment(world, 0, 2, TransportChoice::tcp);
  const auto peer = world.client(1);
  publish(*peer, 1, "127.0.0.1:1", e);
  transport::FileDescriptor link;
  std::jthread outside([&] {
    const auto door = door_of_rank_0(*peer);
    test::Strangers strangers(door, {"127.0.0.66", "127.0.0.67"});
    strangers.come(400);
    link = transport::connect_tcp(door, soon()).value();
    Hello own = world.hello(1);
    own.purpose = Purpose::peer;
    own.target = 0;
    strangers.come(200);
    EXPECT_TRUE(introduce(link.get(), own, world.secret, soon()));
  });
  const auto job = join(e);
  EXPECT_FALSE(job->generation->failure());
  outside.join();
}

TEST(Rendezvous, AMalformedEndpointNamesItsRank) {
  StoreWorld world(2);
  const auto other = world.client(1);
  other->set("endpoint/1", test::bytes("nonsense"));
  const auto failure =
      failure_of([&] { (void)join(environment(world, 0, 2, TransportChoice::automatic)); });
  EXPECT_EQ(failure->what, "rank 1 published a malformed endpoint");
}

// The other process of the next test: this executable again, with this test alone.
TEST(RendezvousHelper, DISABLED_JoinsAndStays) {
  Job job = init();
  job.impl().reactor->drive_until([&] { return job.impl().generation->failure().has_value(); },
                                  Deadline::in(60s));
}

TEST(Rendezvous, AKilledProcessIsLostAtOnceAndNamed) {
  const std::map<TransportChoice, std::string> names = {
      {TransportChoice::shm, "shm"}, {TransportChoice::tcp, "tcp"}, {TransportChoice::ucx, "ucx"}};
  for (const auto transport : with_ucx({TransportChoice::shm, TransportChoice::tcp})) {
    StoreWorld world(2);
    const auto secret = std::filesystem::temp_directory_path() /
                        ("paceline_rendezvous_" + std::to_string(::getpid()));
    std::ofstream(secret) << world.secret.hexadecimal();
    std::filesystem::permissions(secret, std::filesystem::perms::owner_read);
    test::Process other(
        {.command = {std::filesystem::read_symlink("/proc/self/exe").string(),
                     "--gtest_also_run_disabled_tests", "--gtest_filter=RendezvousHelper.*"},
         .environment = {{"PACELINE_RANK", "1"},
                         {"PACELINE_WORLD_SIZE", "2"},
                         {"PACELINE_JOB", "test"},
                         {"PACELINE_GENERATION", "2"},
                         {"PACELINE_START_TIMEOUT", "20s"},
                         {"PACELINE_STORE", world.address},
                         {"PACELINE_SECRET_FILE", secret.string()},
                         {"PACELINE_TRANSPORT", names.at(transport)}}});
    const auto job = join(environment(world, 0, 2, transport));
    std::filesystem::remove(secret);
    EXPECT_FALSE(job->generation->failure());
    const auto begin = Clock::now();
    other.send(SIGKILL);
    ASSERT_TRUE(
        job->reactor->drive_until([&] { return job->generation->failure().has_value(); }, soon()));
    EXPECT_LT(Clock::now() - begin, 1s);
    EXPECT_EQ(job->generation->failure()->fault, Fault::peer_lost);
    EXPECT_EQ(job->generation->failure()->ranks, std::vector{1});
    test::wait_until([&] { return !world.reports().empty(); });
    EXPECT_EQ(world.reports()[0].failure.ranks, std::vector{1});
  }
}

}  // namespace
}  // namespace paceline::job
