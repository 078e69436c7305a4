// Workers that wait for sums ask the servers, and name for whom these wait.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/core/server/machine/sum_server.h"
#include "paceline/core/server/machine/sum_worker.h"

namespace paceline::server {
namespace {

using machine::Actions;
using machine::Send;
using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::IsEmpty;

// Worker 0 of three, on two servers, which are stopped or answer at once, in virtual time.
class Waited {
 public:
  Waited() {
    for (int server = 0; server < 2; ++server) servers_.emplace_back(3);
  }

  void call(std::uint32_t channel) {
    worker_.put({.channel = channel,
                 .number = 1,
                 .input = const_buffer_of(values_),
                 .output = buffer_of(values_),
                 .done = [this](const std::optional<Failure>& why) {
                   ended.push_back(why ? why->what : "done");
                 }});
    carry(worker_.on_message(0, {.kind = SumWorker::kBegin}, now_));
  }
  // The part of the call that `server` sums, from another worker.
  void push_part(int worker, std::uint32_t channel) {
    const SumPiece piece = {.channel = channel, .call = 1, .begin = 0, .count = 4, .all = 4};
    const int server = static_cast<int>(channel + 1) % 2;
    for (const auto& action : servers_[static_cast<std::size_t>(server)].on_message(
             worker, encode(SumKind::push, piece, std::vector<std::byte>(16)), now_))
      if (std::get<Send>(action).to == 0)
        carry(worker_.on_message(3 + server, std::get<Send>(action).message, now_));
  }
  void stop(int server) { stopped_ = server; }
  void pass(milliseconds time) {
    for (const auto end = now_ + time; now_ < end; now_ += milliseconds(1))
      while (timer_ && *timer_ <= now_) {
        timer_.reset();
        carry(worker_.on_timer(0, now_));
      }
  }

  std::vector<std::string> told, ended;
  int questions = 0;
  std::optional<int> slow;  // the member to which data are still being sent

 private:
  void carry(const Actions& actions) {
    for (const auto& action : actions) {
      if (const auto* arm = std::get_if<machine::Arm>(&action)) timer_ = arm->at;
      const auto* send = std::get_if<Send>(&action);
      if (send == nullptr || send->to == 3 + stopped_) continue;
      for (const auto& answer :
           servers_[static_cast<std::size_t>(send->to - 3)].on_message(0, send->message, now_))
        if (std::get<Send>(answer).to == 0)
          carry(worker_.on_message(send->to, std::get<Send>(answer).message, now_));
    }
  }

  std::vector<float> values_ = std::vector<float>(4);
  machine::Time now_ = {};
  std::optional<machine::Time> timer_;
  int stopped_ = -1;
  std::vector<SumServer> servers_;
  SumWorker worker_{3,
                    2,
                    {.timeout = milliseconds(2000),
                     .stall = milliseconds(500),
                     .rank = 0,
                     .tell = [this](const std::string& line) { told.push_back(line); },
                     .asked = [this] { ++questions; },
                     .excuse =
                         [this](coordination::Awaited& awaited) {
                           if (slow) awaited.is_being_sent(*slow, {2 << 20, 1 << 20});
                         }}};
};

TEST(SumWaiting, ThoseWhosePartsAreMissingAreNamedAtTheStallTimeAndAtTheDeadline) {
  Waited sums;
  sums.call(1);
  sums.push_part(2, 1);
  sums.pass(milliseconds(499));
  EXPECT_THAT(sums.told, IsEmpty());
  sums.pass(milliseconds(2));
  EXPECT_THAT(sums.told, ElementsAre("stall: for 0.5 s rank 0 waits in push_pull of 4 f32 for sum "
                                     "for rank 1, which has not pushed all of it"));
  sums.pass(milliseconds(1498));
  EXPECT_THAT(sums.ended, IsEmpty());
  EXPECT_THAT(sums.told, testing::SizeIs(1));
  sums.pass(milliseconds(2));
  EXPECT_THAT(sums.ended, ElementsAre(testing::AllOf(
                              testing::HasSubstr("deadline: rank 0 waits in push_pull of 4 f32 for "
                                                 "sum for rank 1, which has not pushed all of it"),
                              testing::HasSubstr("look at what rank 1 does"))));
}

TEST(SumWaiting, AServerThatDoesNotAnswerIsNamed) {
  Waited sums;
  sums.stop(0);
  sums.call(1);
  sums.pass(milliseconds(800));
  EXPECT_THAT(sums.told, ElementsAre(testing::EndsWith("for server 0, which does not answer")));
}

TEST(SumWaiting, AServerToWhichPartsAreStillSentIsNotBlamed) {
  Waited sums;
  sums.stop(0);
  sums.slow = 3;
  sums.call(1);
  sums.pass(milliseconds(800));
  const std::string waits = "server 0, to which 2.0 MiB are still being sent (1.0 MiB a second)";
  EXPECT_THAT(sums.told, ElementsAre(testing::EndsWith("for sum for " + waits)));
  EXPECT_EQ(sums.questions, 1);
  sums.pass(milliseconds(1300));
  EXPECT_THAT(sums.ended,
              ElementsAre(testing::HasSubstr(waits + "; the network to server 0 is slow")));
  EXPECT_EQ(sums.questions, 2);
}

TEST(SumWaiting, WhileSumsComeNothingIsTold) {
  Waited sums;
  for (const std::uint32_t channel : {1u, 2u, 3u, 4u}) sums.call(channel);
  for (const std::uint32_t channel : {1u, 2u, 3u}) {
    sums.pass(milliseconds(350));
    for (const int worker : {1, 2}) sums.push_part(worker, channel);
  }
  EXPECT_THAT(sums.told, IsEmpty());
  EXPECT_THAT(sums.ended, ElementsAre("done", "done", "done"));
  sums.pass(milliseconds(510));
  EXPECT_THAT(sums.told, testing::SizeIs(1)) << "from the last sum on";
}

TEST(SumWaiting, WhatIsNoAnswerIsNotHeeded) {
  Waited sums;
  SumWorker worker(3, 1, {.timeout = milliseconds(10)});
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{7}, std::size_t{13}})
    EXPECT_THAT(worker.on_message(3,
                                  {.kind = static_cast<std::uint32_t>(SumKind::missing),
                                   .payload = std::vector<std::byte>(bytes)},
                                  {}),
                IsEmpty());
}

}  // namespace
}  // namespace paceline::server
