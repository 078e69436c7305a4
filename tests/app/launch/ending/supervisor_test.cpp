// The launcher's decisions, in virtual time: milliseconds since the start of the run.
#include "paceline/app/launch/ending/supervisor.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cerrno>
#include <random>

#include "tests/support/seed.h"

namespace paceline::launch {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::StartsWith;
using Moment = Supervisor::Moment;

Moment at(int ms) {
  return Moment(milliseconds(1'000'000 + ms));
}
int code(int exit_code) {
  return exit_code << 8;
}

Action verdict(int rank, const std::string& what) {
  return tell({Fault::peer_lost, what, {rank}});
}
Failure lost(std::vector<int> ranks) {
  return {Fault::peer_lost, "a peer is gone", std::move(ranks)};
}

Supervisor started(int ranks, Supervisor::Options options = {}) {
  options.world_size = ranks;
  Supervisor supervisor(options);
  for (int rank = 0; rank < ranks; ++rank) supervisor.on_started(rank, 100 + rank);
  return supervisor;
}

// All that happens by timers alone until `end`, as "<ms> <action>".
std::vector<std::string> timers_until(Supervisor& supervisor, int end) {
  std::vector<std::string> log;
  while (supervisor.next_timer().moment() <= at(end) &&
         supervisor.next_timer() != supervisor.end_by()) {
    const auto now = supervisor.next_timer().moment();
    for (const Action& action : supervisor.on_timer(now)) {
      const auto ms = std::chrono::duration_cast<milliseconds>(now - at(0)).count();
      if (action.kind == Action::Kind::tell)
        log.push_back(fmt::format("{} tell {}", ms, action.verdict.what));
      if (action.kind == Action::Kind::forward)
        log.push_back(fmt::format("{} signal {}", ms, action.signal));
      if (action.kind == Action::Kind::kill) log.push_back(fmt::format("{} kill", ms));
    }
  }
  return log;
}

TEST(Supervisor, WhenAllEndWithZeroTheRunIsDone) {
  auto supervisor = started(2);
  EXPECT_THAT(supervisor.on_exit(1, code(0), at(5)), IsEmpty());
  EXPECT_FALSE(supervisor.all_ended());
  EXPECT_THAT(supervisor.on_exit(0, code(0), at(9)), IsEmpty());
  EXPECT_TRUE(supervisor.all_ended());
  EXPECT_TRUE(supervisor.next_timer().is_never());
  EXPECT_EQ(supervisor.outcome(), Outcome{});
}

// Two ranks and two servers, all linked.
Supervisor with_replicas() {
  auto supervisor = started(2, {.servers = 2});
  for (const int server : {2, 3}) supervisor.on_started(server, 100 + server);
  for (int member = 0; member < 4; ++member) {
    EXPECT_THAT(supervisor.on_joined(member, at(0)), IsEmpty());
    supervisor.on_linked(member);
  }
  return supervisor;
}

TEST(Supervisor, AServerThatIsReplacedFailsNothingAndTheRunEndsWithAllOthers) {
  auto supervisor = with_replicas();
  supervisor.on_borne_exit(2, SIGKILL, at(10));
  EXPECT_TRUE(supervisor.is_well());
  EXPECT_EQ(supervisor.add_server("b"), 4);
  EXPECT_EQ(supervisor.records()[4].server, 2);
  for (const int rank : {0, 1}) {
    supervisor.on_left(rank);
    EXPECT_THAT(supervisor.on_exit(rank, code(0), at(20)), IsEmpty());
  }
  EXPECT_FALSE(supervisor.has_ranks());
  supervisor.on_left(3);
  EXPECT_THAT(supervisor.on_exit(3, code(0), at(21)), IsEmpty());
  EXPECT_FALSE(supervisor.all_ended()) << "the newcomer is still there";
  supervisor.on_left(4);
  EXPECT_THAT(supervisor.on_exit(4, code(0), at(22)), IsEmpty());
  EXPECT_TRUE(supervisor.all_ended());
  EXPECT_TRUE(supervisor.next_timer().is_never());
  EXPECT_EQ(supervisor.outcome(), Outcome{});
}

TEST(Supervisor, TheLastServerToDieIsTheFirstFailure) {
  auto supervisor = with_replicas();
  supervisor.on_borne_exit(2, SIGKILL, at(10));
  EXPECT_THAT(supervisor.on_exit(3, SIGKILL, at(40)), IsEmpty());
  EXPECT_FALSE(supervisor.is_well());
  for (const int rank : {0, 1}) (void)supervisor.on_exit(rank, code(1), at(50));
  EXPECT_EQ(supervisor.outcome().root, 3);
  EXPECT_EQ(supervisor.outcome().exit_code, 137);
}

// The launcher may read the end of a process before its report.
TEST(Supervisor, AServerThatToldAllWhyItEndsWasNoDeathThatIsBorne) {
  auto supervisor = with_replicas();
  supervisor.on_borne_exit(2, code(1), at(10));
  EXPECT_THAT(supervisor.on_report(2, {Fault::io, "no disk", {}}, at(11)), IsEmpty());
  EXPECT_FALSE(supervisor.is_well());
  for (const int member : {0, 1, 3}) (void)supervisor.on_exit(member, code(1), at(20));
  EXPECT_EQ(supervisor.outcome().root, 2);
  auto late = with_replicas();
  late.on_borne_exit(2, SIGKILL, at(10));
  ASSERT_EQ(late.add_server(""), 4);
  late.on_borne_exit(4, code(1), at(20));
  EXPECT_THAT(late.on_report(4, {Fault::io, "no disk", {}}, at(21)), IsEmpty());
  EXPECT_TRUE(late.is_well()) << "nobody was linked to it";
}

TEST(Supervisor, WhoEndsWithZeroWithoutHavingJoinedIsTheFirstFailureWhenOthersHave) {
  for (const bool ends_first : {true, false}) {
    auto supervisor = started(3);
    const auto end = [&] { EXPECT_THAT(supervisor.on_exit(1, code(0), at(50)), IsEmpty()); };
    const auto join = [&] { EXPECT_THAT(supervisor.on_joined(0, at(50)), IsEmpty()); };
    if (ends_first) end(), join();
    else join(), end();
    const auto log = timers_until(supervisor, 80);
    ASSERT_EQ(log.size(), 1U);
    EXPECT_THAT(log[0], StartsWith("70 tell rank 1 (pid 101) ended with code 0 without having "
                                   "joined the run, while others waited"));
    EXPECT_EQ(supervisor.outcome().root, 1);
    EXPECT_EQ(supervisor.outcome().exit_code, 1);
  }
}

TEST(Supervisor, WhoEndsWithZeroWithoutAGoodbyeWhileOthersWaitIsTheFirstFailure) {
  for (const bool says_goodbye : {false, true}) {
    auto supervisor = started(2);
    for (const int rank : {0, 1}) EXPECT_THAT(supervisor.on_joined(rank, at(0)), IsEmpty());
    if (says_goodbye) supervisor.on_left(1);
    EXPECT_THAT(supervisor.on_exit(1, code(0), at(50)), IsEmpty());
    EXPECT_TRUE(supervisor.is_well()) << "nobody has missed it";
    EXPECT_THAT(supervisor.on_report(0, lost({1}), at(51)), IsEmpty());
    (void)supervisor.on_exit(0, code(3), at(52));
    EXPECT_EQ(supervisor.outcome().root, says_goodbye ? 0 : 1);
    EXPECT_EQ(supervisor.outcome().exit_code, says_goodbye ? 3 : 1);
  }
}

TEST(Supervisor, WhoIsAbsentForTooLongEndsTheRun) {
  auto supervisor = started(2);
  EXPECT_THAT(supervisor.on_joined(0, at(0)), IsEmpty());
  EXPECT_THAT(supervisor.on_absent(1, "did not join", at(50)), IsEmpty());
  EXPECT_THAT(timers_until(supervisor, 80), ElementsAre("70 tell rank 1 (pid 101) did not join"));
}

TEST(Supervisor, ARankThatStoppedAfterSigtermStopsTheOthersWithoutBlame) {
  auto supervisor = started(3, {.stop_grace = milliseconds(700)});
  EXPECT_THAT(supervisor.on_exit(1, code(143), at(50)), ElementsAre(forward(SIGTERM)));
  EXPECT_THAT(supervisor.on_exit(0, code(143), at(60)), IsEmpty());
  EXPECT_THAT(timers_until(supervisor, 10'000), ElementsAre("750 kill"));
  const Outcome outcome = supervisor.outcome();
  EXPECT_EQ(outcome.kind, Outcome::Kind::interrupted);
  EXPECT_EQ(outcome.exit_code, 143);
  EXPECT_FALSE(outcome.root);
}

TEST(Supervisor, AFailureIsToldThenTermAfterGraceThenKill) {
  auto supervisor = started(3);
  EXPECT_THAT(supervisor.on_exit(1, SIGKILL, at(50)), IsEmpty())
      << "its report may still be on its way";
  EXPECT_THAT(timers_until(supervisor, 10'000),
              ElementsAre("70 tell rank 1 (pid 101) was killed by signal 9 (SIGKILL)",
                          "1050 signal 15", "1450 kill"));
  EXPECT_EQ(supervisor.end_by(), Deadline::at(at(1850)));
  EXPECT_EQ(supervisor.outcome().exit_code, 137);
  EXPECT_EQ(supervisor.outcome().root, 1);
}

TEST(Supervisor, AFailureWithItsReportIsToldAtOnce) {
  auto supervisor = started(2);
  EXPECT_THAT(supervisor.on_report(0, {Fault::misuse, "no data", {}}, at(0)), IsEmpty());
  EXPECT_THAT(supervisor.on_exit(0, code(1), at(50)),
              ElementsAre(verdict(0, "rank 0 (pid 100) ended with code 1; it told: no data")));
}

TEST(Supervisor, AReportThatIsReadAfterTheEndStillCounts) {
  auto supervisor = started(2);
  EXPECT_THAT(supervisor.on_exit(0, SIGABRT, at(10)), IsEmpty());
  EXPECT_THAT(supervisor.on_exit(1, SIGSEGV, at(11)), IsEmpty());
  EXPECT_TRUE(supervisor.all_ended());
  EXPECT_FALSE(supervisor.settled());
  EXPECT_THAT(supervisor.on_report(0, lost({1}), at(0)), IsEmpty());
  EXPECT_EQ(supervisor.on_timer(at(30)).size(), 1U);
  EXPECT_TRUE(supervisor.settled());
  EXPECT_EQ(supervisor.outcome().root, 1);
}

TEST(Supervisor, GraceMovesTheWholeEnd) {
  auto supervisor = started(2, {.grace = milliseconds(5000)});
  EXPECT_THAT(supervisor.on_exit(0, code(3), at(0)), IsEmpty());
  EXPECT_THAT(
      timers_until(supervisor, 20'000),
      ElementsAre("20 tell rank 0 (pid 100) ended with code 3", "5000 signal 15", "5400 kill"));
}

TEST(Supervisor, TheExitCodeIsThatOfTheEarliestStampNotOfTheFirstMessage) {
  auto supervisor = started(3);
  EXPECT_THAT(supervisor.on_exit(2, code(5), at(20)), IsEmpty());
  EXPECT_THAT(supervisor.on_exit(0, code(4), at(10)), IsEmpty());
  EXPECT_EQ(supervisor.outcome().root, 0);
  EXPECT_EQ(supervisor.outcome().exit_code, 4);
}

TEST(Supervisor, WhoFailedBecauseOfAnotherIsNeverTheCauseAlthoughItEndsFirst) {
  auto supervisor = started(3);
  EXPECT_THAT(supervisor.on_report(0, lost({1}), at(0)), IsEmpty());
  EXPECT_THAT(supervisor.on_exit(0, code(1), at(10)), IsEmpty())
      << "the verdict waits for rank 1's own end";
  EXPECT_THAT(supervisor.on_exit(1, SIGSEGV, at(30)),
              ElementsAre(verdict(1, "rank 1 (pid 101) was killed by signal 11 (SIGSEGV)")));
  EXPECT_THAT(timers_until(supervisor, 10'000), ElementsAre("1010 signal 15", "1410 kill"))
      << "from the first failure";
  EXPECT_EQ(supervisor.outcome().root, 1);
  EXPECT_EQ(supervisor.outcome().exit_code, 139);
}

TEST(Supervisor, TheVerdictDoesNotWaitForEver) {
  auto supervisor = started(2);
  EXPECT_THAT(supervisor.on_report(0, lost({1}), at(0)), IsEmpty());
  EXPECT_THAT(supervisor.on_exit(0, code(1), at(0)), IsEmpty());
  EXPECT_THAT(timers_until(supervisor, 10'000),
              ElementsAre("200 tell rank 0 (pid 100) ended with code 1; it told: a peer is gone",
                          "1000 signal 15", "1400 kill"));
}

TEST(Supervisor, AnEndAfterTheVerdictStillMovesTheCause) {
  auto supervisor = started(2);
  EXPECT_THAT(supervisor.on_report(0, lost({1}), at(0)), IsEmpty());
  EXPECT_THAT(supervisor.on_exit(0, code(1), at(0)), IsEmpty());
  EXPECT_EQ(supervisor.on_timer(at(200)).size(), 1U);
  EXPECT_THAT(supervisor.on_exit(1, SIGABRT, at(900)), IsEmpty());
  EXPECT_EQ(supervisor.outcome().root, 1);
}

TEST(Supervisor, WhoWasStoppedByUsDidNotFail) {
  auto supervisor = started(2);
  EXPECT_THAT(supervisor.on_report(0, lost({1}), at(0)), IsEmpty());
  EXPECT_THAT(supervisor.on_exit(0, code(1), at(0)), IsEmpty());
  timers_until(supervisor, 10'000);
  EXPECT_THAT(supervisor.on_exit(1, SIGTERM, at(1001)), IsEmpty());
  EXPECT_TRUE(supervisor.records()[1].stopped);
  EXPECT_EQ(supervisor.outcome().root, 0);
}

TEST(Supervisor, RanksThatBlameEachOtherAreOrderedByStamp) {
  auto supervisor = started(2);
  EXPECT_THAT(supervisor.on_report(0, lost({0, 1}), at(0)), IsEmpty());
  EXPECT_THAT(supervisor.on_report(1, lost({0, 1}), at(0)), IsEmpty());
  EXPECT_THAT(supervisor.on_exit(1, code(6), at(3)), IsEmpty());
  EXPECT_EQ(supervisor.on_exit(0, code(7), at(4)).size(), 1U);
  EXPECT_EQ(supervisor.outcome().root, 1);
}

TEST(Supervisor, ControlCIsForwardedHasThirtySecondsAndEndsWith130) {
  auto supervisor = started(2);
  EXPECT_THAT(supervisor.on_signal(SIGINT, at(100)), ElementsAre(forward(SIGINT)));
  EXPECT_THAT(supervisor.on_exit(0, code(1), at(200)), IsEmpty())
      << "no failure: it was asked to end";
  EXPECT_THAT(timers_until(supervisor, 60'000), ElementsAre("30100 kill"));
  EXPECT_EQ(supervisor.outcome().exit_code, 130);
}

TEST(Supervisor, ASecondSignalKillsAndTheFirstNamesTheCode) {
  auto supervisor = started(2);
  EXPECT_THAT(supervisor.on_signal(SIGTERM, at(100)), ElementsAre(forward(SIGTERM)));
  EXPECT_THAT(supervisor.on_signal(SIGINT, at(150)), ElementsAre(kill()));
  EXPECT_EQ(supervisor.end_by(), Deadline::at(at(550)));
  EXPECT_EQ(supervisor.outcome().exit_code, 143);
}

TEST(Supervisor, ASignalDuringTheEndOfAFailedRunKillsAtOnce) {
  auto supervisor = started(2);
  EXPECT_THAT(supervisor.on_exit(0, code(3), at(0)), IsEmpty());
  EXPECT_THAT(supervisor.on_signal(SIGINT, at(10)), ElementsAre(kill()));
  EXPECT_EQ(supervisor.outcome().exit_code, 3);
}

TEST(Supervisor, UserSignalsPassThrough) {
  auto supervisor = started(1);
  EXPECT_THAT(supervisor.on_signal(SIGUSR1, at(0)), ElementsAre(forward(SIGUSR1)));
  EXPECT_TRUE(supervisor.next_timer().is_never());
}

TEST(Supervisor, AfterTheTimeoutRanksHaveTheTimeToSaveThatSigtermGives) {
  auto supervisor = started(2, {.timeout_at = Deadline::at(at(500))});
  EXPECT_THAT(timers_until(supervisor, 40'000), ElementsAre("500 signal 15", "30500 kill"));
  EXPECT_EQ(supervisor.outcome().exit_code, 124);
}

TEST(Supervisor, AFailureBeforeTheTimeoutStaysTheCause) {
  auto supervisor = started(2, {.timeout_at = Deadline::at(at(500))});
  EXPECT_THAT(supervisor.on_exit(0, code(3), at(400)), IsEmpty());
  EXPECT_THAT(
      timers_until(supervisor, 10'000),
      ElementsAre("420 tell rank 0 (pid 100) ended with code 3", "1400 signal 15", "1800 kill"));
  EXPECT_EQ(supervisor.outcome().exit_code, 3);
}

TEST(Supervisor, LostOutputStopsTheRunAsSigpipeWould) {
  auto supervisor = started(1);
  EXPECT_EQ(supervisor.on_output_lost(EPIPE, at(0)).back(), forward(SIGTERM));
  EXPECT_EQ(supervisor.outcome().exit_code, 141);
  auto full = started(1);
  EXPECT_EQ(full.on_output_lost(ENOSPC, at(0)).size(), 2U);
  EXPECT_EQ(full.outcome().exit_code, 1);
}

TEST(Supervisor, AProgramThatCannotBeStartedFailsTheRun) {
  Supervisor supervisor({.world_size = 2});
  EXPECT_THAT(supervisor.on_not_started(1, "cannot execute x: Exec format error", at(1)),
              IsEmpty());
  EXPECT_EQ(supervisor.outcome().exit_code, 1);
  EXPECT_EQ(supervisor.outcome().root, 1);
}

TEST(Supervisor, ServersThatDoNotEndWithTheRanksGetGraceAndWhereNoneHadJoinedTheRunIsDone) {
  auto supervisor = started(2, {.servers = 2});
  EXPECT_THAT(supervisor.on_exit(0, code(0), at(100)), IsEmpty());
  EXPECT_TRUE(supervisor.next_timer().is_never()) << "a rank still runs";
  EXPECT_THAT(supervisor.on_exit(1, code(0), at(200)), IsEmpty());
  EXPECT_THAT(supervisor.on_exit(2, code(0), at(210)), IsEmpty());
  EXPECT_FALSE(supervisor.all_ended());
  EXPECT_THAT(timers_until(supervisor, 10'000), ElementsAre("1200 kill"));
  EXPECT_THAT(supervisor.on_exit(3, SIGKILL, at(1201)), IsEmpty());
  EXPECT_TRUE(supervisor.settled());
  EXPECT_EQ(supervisor.outcome(), Outcome{}) << "nothing has failed";
}

// A job of two ranks, which end well, and two servers, of which the second does not end.
Supervisor with_a_server_that_stays() {
  auto supervisor = started(2, {.servers = 2, .server_grace = milliseconds(4000)});
  for (int member = 0; member < 4; ++member)
    EXPECT_THAT(supervisor.on_joined(member, at(10)), IsEmpty());
  for (const int rank : {0, 1}) {
    supervisor.on_left(rank);
    EXPECT_THAT(supervisor.on_exit(rank, code(0), at(100)), IsEmpty());
  }
  EXPECT_THAT(supervisor.on_exit(2, code(0), at(150)), IsEmpty());
  EXPECT_THAT(timers_until(supervisor, 10'000), ElementsAre("4100 kill"));
  return supervisor;
}

TEST(Supervisor, AServerThatHadToBeKilledAfterTheRanksFailsTheRun) {
  auto supervisor = with_a_server_that_stays();
  EXPECT_THAT(supervisor.on_exit(3, SIGKILL, at(4101)), IsEmpty()) << "nobody is left to be told";
  EXPECT_TRUE(supervisor.settled());
  EXPECT_EQ(supervisor.outcome(),
            (Outcome{.kind = Outcome::Kind::failed, .exit_code = 1, .root = 3}));
}

TEST(Supervisor, AServerThatCannotBeKilledAfterTheRanksFailsTheRunToo) {
  const auto supervisor = with_a_server_that_stays();
  EXPECT_EQ(supervisor.end_by(), Deadline::at(at(4500)));
  EXPECT_EQ(supervisor.outcome(),
            (Outcome{.kind = Outcome::Kind::failed, .exit_code = 1, .root = 3}));
}

TEST(Supervisor, AServerThatEndsWellAsItIsKilledFailsNothing) {
  auto supervisor = with_a_server_that_stays();
  EXPECT_THAT(supervisor.on_exit(3, code(0), at(4099)), IsEmpty());
  EXPECT_TRUE(supervisor.settled());
  EXPECT_EQ(supervisor.outcome(), Outcome{});
}

TEST(Supervisor, AnInterruptWhileServersStayIsStillTheCause) {
  auto supervisor = started(1, {.servers = 1});
  EXPECT_THAT(supervisor.on_joined(0, at(10)), IsEmpty());
  EXPECT_THAT(supervisor.on_exit(0, code(0), at(100)), IsEmpty());
  EXPECT_THAT(supervisor.on_signal(SIGINT, at(200)), ElementsAre(forward(SIGINT)));
  EXPECT_EQ(supervisor.outcome().exit_code, 130);
}

TEST(Supervisor, ServersThatEndWithTheRanksLeaveNoTimer) {
  auto supervisor = started(1, {.servers = 1});
  EXPECT_THAT(supervisor.on_exit(0, code(0), at(200)), IsEmpty());
  EXPECT_THAT(supervisor.on_exit(1, code(0), at(201)), IsEmpty());
  EXPECT_TRUE(supervisor.settled());
  EXPECT_TRUE(supervisor.next_timer().is_never());
  EXPECT_TRUE(supervisor.end_by().is_never()) << "output may take its time";
}

TEST(Supervisor, AServerThatDiesFailsTheRunAndIsNamed) {
  auto supervisor = started(2, {.servers = 1});
  EXPECT_THAT(supervisor.on_exit(2, SIGKILL, at(0)), IsEmpty());
  EXPECT_THAT(timers_until(supervisor, 1000),
              testing::Contains("20 tell server 0 (pid 0) was killed by signal 9 (SIGKILL)"));
  EXPECT_EQ(supervisor.outcome().exit_code, 137);
  EXPECT_EQ(supervisor.outcome().root, 2);
}

// In any order of events a stopped run gets its kill and its end, a verdict is told at most once,
// and the cause, if any, is a rank that failed.
TEST(Supervisor, EveryStoppedRunEndsInBoundedTime) {
  for (unsigned seed = 0; seed < 2000; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    std::mt19937 random(static_cast<unsigned>(test::seed(seed)));
    const int ranks = 1 + static_cast<int>(random() % 5);
    auto supervisor = started(ranks);
    int told = 0, now = 0;
    const auto count = [&](const Actions& actions) {
      for (const Action& action : actions) told += action.kind == Action::Kind::tell ? 1 : 0;
    };
    for (int event = 0; event < 12; ++event) {
      now += static_cast<int>(random() % 400);
      const int rank = static_cast<int>(random() % static_cast<unsigned>(ranks));
      switch (random() % 5) {
        case 0:
          count(supervisor.on_exit(rank, random() % 2 == 0 ? code(0) : SIGKILL, at(now)));
          break;
        case 1:
          count(supervisor.on_report(rank, lost({static_cast<int>(random() % 6) - 1}), at(0)));
          break;
        case 2:
          if (random() % 8 == 0) count(supervisor.on_signal(SIGINT, at(now)));
          break;
        default: count(supervisor.on_timer(at(now)));
      }
    }
    const auto outcome = supervisor.outcome();
    EXPECT_LE(told, 1);
    EXPECT_EQ(outcome.kind == Outcome::Kind::done, supervisor.end_by().is_never());
    if (outcome.root) {
      EXPECT_TRUE(supervisor.records()[static_cast<std::size_t>(*outcome.root)].failed());
      EXPECT_LE(supervisor.end_by().moment(), at(now + 1800));
    }
  }
}

}  // namespace
}  // namespace paceline::launch
