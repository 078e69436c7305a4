// Ranks that no launcher of Paceline started find the store in rank 0. Also covers
// paceline/core/membership/store/exchange.h.
#include "paceline/core/membership/generation/meeting.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <thread>

#include "paceline/core/base/result.h"
#include "paceline/core/membership/handshake/handshake.h"
#include "paceline/core/transport/socket/socket.h"
#include "tests/support/another_user.h"

namespace paceline::membership {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using Kind = Meeting::Kind;

Environment rank_of(int rank, int world_size, const std::string& job,
                    Meeting meeting = {.kind = Kind::this_host}) {
  Environment e;
  e.rank = e.local_rank = rank;
  e.world_size = e.local_world_size = world_size;
  e.job = job + std::to_string(::getpid());
  e.meeting = std::move(meeting);
  e.start_timeout = 5s;
  return e;
}

TEST(Meeting, OnOneHostRank0HandsOutItsAddressAndASecret) {
  transport::Reactor reactor, other;
  Environment first = rank_of(0, 2, "hand-out"), second = rank_of(1, 2, "hand-out");
  // May come before rank 0.
  std::jthread late([&] { meet(second, other, Deadline::in(second.start_timeout)); });
  const auto store = meet(first, reactor, Deadline::in(first.start_timeout));
  late.join();
  ASSERT_NE(store, nullptr);
  EXPECT_EQ(second.store, first.store);
  EXPECT_THAT(first.store, ::testing::StartsWith("127.0.0.1:"));
  EXPECT_EQ(second.secret->key(), first.secret->key());
}

TEST(Meeting, AGivenSecretIsKept) {
  transport::Reactor reactor;
  Environment first = rank_of(0, 2, "given");
  first.secret = Secret::random();
  const auto key = first.secret->key();
  const auto store = meet(first, reactor, Deadline::in(first.start_timeout));
  EXPECT_EQ(first.secret->key(), key);
}

TEST(Meeting, TwoRank0OfOneJobAreRefused) {
  transport::Reactor reactor, other;
  Environment first = rank_of(0, 2, "twice"), second = rank_of(0, 2, "twice");
  const auto store = meet(first, reactor, Deadline::in(first.start_timeout));
  try {
    meet(second, other, Deadline::in(second.start_timeout));
    FAIL() << "two rank 0";
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::misuse);
    EXPECT_THAT(error.what(), HasSubstr("another rank 0"));
  }
}

// A process that listens there would tell where the store is, and its secret.
TEST(Meeting, AMeetingPointOfAnotherUserIsNotBelieved) {
  if (::geteuid() != 0) GTEST_SKIP() << "NOT TESTED: only root can be another user";
  transport::Reactor reactor;
  Environment e = rank_of(1, 2, "usurped");
  const std::string name =
      fmt::format("paceline.meet.{}.{:016x}.{}", ::geteuid(), job_fingerprint(e.job), e.generation);
  const test::AnotherUser usurper([&] {
    static auto kept = transport::listen_unix(name);
    if (!kept) ::_exit(1);
  });
  try {
    meet(e, reactor, Deadline::in(e.start_timeout));
    FAIL() << "it took a stranger's word";
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::refused) << error.what();
    EXPECT_THAT(error.what(), HasSubstr("belongs to another user's process"));
  }
}

TEST(Meeting, WithoutRank0ItEndsInTimeAndSaysWhoIsMissing) {
  transport::Reactor reactor;
  Environment lonely = rank_of(1, 2, "lonely");
  lonely.start_timeout = 50ms;
  try {
    meet(lonely, reactor, Deadline::in(lonely.start_timeout));
    FAIL() << "met nobody";
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::timed_out);
    EXPECT_EQ(error.failure().ranks, std::vector<int>{0});
    EXPECT_THAT(error.what(), HasSubstr("did rank 0 start"));
  }
}

TEST(Meeting, AnotherHostNeedsASecret) {
  transport::Reactor reactor;
  Environment away = rank_of(1, 2, "away", {.kind = Kind::address, .address = "192.0.2.77:5000"});
  away.local_world_size = 1;
  try {
    meet(away, reactor, Deadline::in(away.start_timeout));
    FAIL() << "left the host without a secret";
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::misuse);
    EXPECT_THAT(error.what(), HasSubstr("PACELINE_SECRET_FILE"));
  }
}

TEST(Meeting, BetweenHostsRank0ListensWhereTheLauncherSays) {
  transport::Reactor reactor, other;
  const Meeting where{.kind = Kind::address, .address = "localhost:26841"};
  Environment first = rank_of(0, 2, "address", where), second = rank_of(1, 2, "address", where);
  for (Environment* e : {&first, &second}) {
    e->local_world_size = 1;
    e->secret = Secret(Secret::Key{});
  }
  const auto store = meet(first, reactor, Deadline::in(first.start_timeout));
  meet(second, other, Deadline::in(second.start_timeout));
  EXPECT_EQ(first.store, "127.0.0.1:26841");
  EXPECT_EQ(second.store, first.store);
}

}  // namespace
}  // namespace paceline::membership
