#include "paceline/core/coordination/awaited.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::coordination {
namespace {

constexpr int kRanks = 3;

TEST(Awaited, ThoseThatLackTheSameAreNamedTogetherByTheirRoles) {
  Awaited awaited;
  EXPECT_EQ(awaited.text(kRanks), "what is under way");
  awaited.answers(3);
  EXPECT_EQ(awaited.text(kRanks), "server 0 to send what is there");
  awaited.answers(4);
  EXPECT_EQ(awaited.text(kRanks), "servers 0, 1 to send what is there");
  awaited.lacks(2, "made it");
  EXPECT_EQ(awaited.text(kRanks), "rank 2, which has not made it");
  awaited.lacks(1, "made it");
  EXPECT_EQ(awaited.text(kRanks), "ranks 1, 2, which have not made it");
  awaited.lacks(3, "made it");
  awaited.lacks(0, "ended it");
  EXPECT_EQ(awaited.text(kRanks),
            "rank 0, which has not ended it; ranks 1, 2 and server 0, which have not made it");
}

TEST(Awaited, AServerToWhichDataAreStillSentIsNoSilentOneAndIsNotBlamed) {
  Awaited awaited;
  for (const int server : {3, 4, 5}) awaited.is_silent(server);
  awaited.is_being_sent(3, {.bytes = 54'840'525, .a_second = 1'153'434});
  awaited.is_sending(4);
  EXPECT_THAT(awaited.silent(), ::testing::ElementsAre(5));
  EXPECT_EQ(
      awaited.text(kRanks),
      "server 2, which does not answer; server 0, to which 52.3 MiB are still being sent (1.1 "
      "MiB a second)");
  awaited.is_being_sent(5, {.bytes = 2048, .a_second = 512});
  EXPECT_EQ(
      awaited.text(kRanks),
      "server 0, to which 52.3 MiB are still being sent (1.1 MiB a second); server 2, to which "
      "2.0 KiB are still being sent (0.5 KiB a second)");
  const Failure failure = deadline_failure("rank 0 waits", awaited, kRanks);
  EXPECT_THAT(failure.ranks, ::testing::IsEmpty());
  EXPECT_THAT(failure.what,
              ::testing::HasSubstr("; the network to servers 0, 2 is slow for so many "
                                   "bytes. "));
}

TEST(Awaited, AFailureBlamesWhomItNames) {
  Awaited awaited;
  awaited.lacks(2, "made it");
  awaited.lacks(0, "made it");
  awaited.is_silent(3);
  const std::string waits = "rank 1 waits in x for " + awaited.text(kRanks);
  EXPECT_EQ(stall_text(std::chrono::milliseconds(500), waits),
            "stall: for 0.5 s rank 1 waits in x for ranks 0, 2, which have not made it; server 0, "
            "which does not answer");
  const Failure failure = deadline_failure(waits, awaited, kRanks);
  EXPECT_THAT(failure.ranks, ::testing::ElementsAre(0, 2, 3));
  EXPECT_THAT(failure.what, ::testing::HasSubstr("; look at what ranks 0, 2 and server 0 do."));
  EXPECT_EQ(failure.fault, Fault::timed_out);
}

}  // namespace
}  // namespace paceline::coordination
