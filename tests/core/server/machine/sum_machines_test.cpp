// The machines of push_pull, of a worker and of a server, without a network.
// Also covers paceline/core/server/machine/sum_server.cpp,
// paceline/core/server/machine/sum_worker.cpp and paceline/core/server/wire/sum_piece.cpp.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/core/base/seed.h"
#include "paceline/core/server/machine/sum_server.h"
#include "paceline/core/server/machine/sum_worker.h"
#include "paceline/core/server/wire/sum_piece.h"
#include "tests/support/nightly.h"
#include "tests/support/seed.h"

namespace paceline::server {
namespace {

using machine::Actions;
using machine::Drop;
using machine::Message;
using machine::Send;
using testing::HasSubstr;
using testing::SizeIs;

constexpr SumPiece kPiece = {.channel = 3, .call = 7, .begin = 2, .count = 2, .all = 5};

Message pushed(float first, float second, const SumPiece& piece = kPiece) {
  const float values[] = {first, second};
  return encode(SumKind::push, piece, std::as_bytes(std::span(values)).first(piece.count * 4));
}

std::string text_in(const machine::Action& action) {
  const auto& payload = std::get<Send>(action).message.payload;
  return {reinterpret_cast<const char*>(payload.data()), payload.size()};
}

TEST(SumPiece, IsReadAsItWasToldAndNothingElseIsRead) {
  const Message whole = pushed(1, 2);
  const auto read = parse_sum_piece(whole);
  ASSERT_TRUE(read);
  EXPECT_EQ(read.value().piece, kPiece);
  EXPECT_EQ(read.value().elements.size(), 8u);
  for (std::size_t length = 0; length < whole.payload.size(); ++length) {
    Message cut = whole;
    cut.payload.resize(length);
    EXPECT_FALSE(parse_sum_piece(cut)) << length;
  }
  SumPiece beyond = kPiece;
  beyond.begin = 4;
  EXPECT_FALSE(parse_sum_piece(pushed(1, 2, beyond))) << "it ends behind the call";
  SumPiece rounds = kPiece;
  rounds.dtype = Dtype::bf16;
  EXPECT_FALSE(parse_sum_piece(pushed(1, 2, rounds)));
}

TEST(SumServer, AnswersAllWhenTheLastHasPushedInWhateverOrderTheyCome) {
  for (const bool backwards : {false, true}) {
    SumServer server(3);
    Actions answers;
    for (int i = 0; i < 3; ++i) {
      EXPECT_THAT(answers, SizeIs(0));
      const int worker = backwards ? 2 - i : i;
      answers = server.on_message(worker, pushed(static_cast<float>(worker), 1), {});
    }
    ASSERT_THAT(answers, SizeIs(3));
    for (int worker = 0; worker < 3; ++worker) {
      const Send& send = std::get<Send>(answers[static_cast<std::size_t>(worker)]);
      EXPECT_EQ(send.to, worker);
      EXPECT_EQ(send.message.payload, pushed(3, 3).payload);
    }
  }
}

TEST(SumServer, HoldsNoMoreOfAWorkerThanItMayAndHearsTheOthers) {
  SumServer server(2);
  SumPiece piece = kPiece;
  for (std::size_t i = 0; i < SumServer::kMostHeld; ++i, ++piece.call)
    EXPECT_THAT(server.on_message(0, pushed(1, 2, piece), {}), SizeIs(0));
  const Actions dropped = server.on_message(0, pushed(1, 2, piece), {});
  ASSERT_THAT(dropped, SizeIs(1));
  EXPECT_THAT(std::get<Drop>(dropped[0]).why.what, HasSubstr("without an answer"));
  EXPECT_THAT(server.on_message(1, pushed(1, 2), {}), SizeIs(2)) << "an answer to both";
}

TEST(SumServer, AWorkerThatLeavesWhileOthersWaitIsNamed) {
  SumServer server(3);
  EXPECT_THAT(server.on_lost(2, {}), SizeIs(0));
  EXPECT_THAT(server.on_lost(5, {}), SizeIs(0)) << "another server";
  const Actions refusals = server.on_message(0, pushed(1, 2), {});
  ASSERT_THAT(refusals, SizeIs(3));
  EXPECT_EQ(text_in(refusals[0]),
            "rank 2 has left the job and rank 0 calls push_pull of 5 f32 for sum");
}

TEST(SumServer, AnyBytesAreTakenWithoutHarm) {
  SeededNumbers numbers(test::seed(2990000));
  std::optional<SumServer> server;
  for (int trial = 0; trial < (test::is_brief() ? 5'000 : 100'000); ++trial) {
    if (trial % 10 == 0) server.emplace(2);  // it refuses all after workers that differ
    Message message = pushed(1, 2);
    for (int change = 0; change < 2; ++change)
      message.payload[static_cast<std::size_t>(numbers.unit() * 48)] =
          static_cast<std::byte>(numbers.unit() * 256);
    std::ignore = server->on_message(trial % 2, message, {});
  }
}

TEST(SumWorker, HasAFewPartsUnderWayToEachServerAndWritesTheSumsWhereTheyBelong) {
  constexpr std::size_t kCount = (std::size_t{5} << 20) / sizeof(float);  // 10 parts of 512 KiB..
  std::vector<float> values(kCount, 1);
  std::vector<std::optional<Failure>> ends;
  SumWorker worker(1, 2, std::chrono::seconds(9));
  worker.put({.channel = 1,
              .number = 1,
              .input = buffer_of(values),
              .output = buffer_of(values),
              .done = [&](std::optional<Failure> failure) { ends.push_back(std::move(failure)); }});
  Actions actions = worker.on_message(0, {.kind = SumWorker::kBegin}, {});
  std::size_t parts = 0;
  while (ends.empty()) {
    Actions next;
    std::map<int, std::size_t> under_way;
    for (const auto& action : actions) {
      if (!std::holds_alternative<Send>(action)) continue;
      const auto& [to, message] = std::get<Send>(action);
      EXPECT_LE(++under_way[to], SumWorker::kWindow);
      const ReadPiece read = parse_sum_piece(message).value();
      ++parts;
      const std::vector<float> sum(read.piece.count, static_cast<float>(read.piece.begin));
      for (auto& more : worker.on_message(
               to, encode(SumKind::sum, read.piece, const_buffer_of(sum).bytes()), {}))
        next.push_back(std::move(more));
    }
    ASSERT_TRUE(!next.empty() || !ends.empty());
    actions = std::move(next);
  }
  EXPECT_FALSE(ends[0].has_value());
  EXPECT_EQ(parts, 5u) << "parts of 1 MiB";
  EXPECT_EQ(values[0], 0);
  EXPECT_EQ(values.back(), static_cast<float>(kCount - (std::size_t{1} << 18)));
}

TEST(SumWorker, ASumThatMakesNoSenseDropsItsServer) {
  SumWorker worker(1, 1, std::chrono::seconds(9));
  const Actions actions = worker.on_message(1, {.kind = 2}, {});
  ASSERT_THAT(actions, SizeIs(1));
  EXPECT_EQ(std::get<Drop>(actions[0]).peer, 1);
}

}  // namespace
}  // namespace paceline::server
