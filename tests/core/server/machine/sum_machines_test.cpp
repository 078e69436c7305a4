// The machines of push_pull, of a worker and of a server, without a network.
// Also covers paceline/core/server/machine/sum_server.cpp,
// paceline/core/server/machine/sum_worker.cpp, paceline/core/server/machine/held_part.cpp,
// paceline/core/server/machine/pushed_parts.cpp and paceline/core/server/wire/sum_piece.cpp.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "paceline/core/base/seed.h"
#include "paceline/core/server/machine/sum_server.h"
#include "paceline/core/server/machine/sum_worker.h"
#include "paceline/core/server/wire/sum_piece.h"
#include "paceline/core/transport/frame/frame.h"
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
  EXPECT_EQ(read.value().rest.size(), 8u);
  EXPECT_EQ(transport::kFrameHeaderBytes + whole.payload.size(), 96u + 8u) << "what links carry";
  for (std::size_t length = 0; length < whole.payload.size(); ++length) {
    Message cut = whole;
    cut.payload.resize(length);
    EXPECT_FALSE(parse_sum_piece(cut)) << length;
  }
  SumPiece beyond = kPiece;
  beyond.begin = 4;
  EXPECT_FALSE(parse_sum_piece(pushed(1, 2, beyond))) << "it ends behind the call";
  SumPiece senseless = kPiece;
  senseless.op = ReduceOp::band;
  EXPECT_FALSE(parse_sum_piece(pushed(1, 2, senseless)));
}

TEST(SumPiece, APlaceThatIsLentIsReadAsItWasTold) {
  const SharedPart lent = {{3, 40}, {5, 80}, {2, 7}};
  const Message whole = encode(kPiece, lent);
  EXPECT_EQ(parse_shared_part(parse_sum_piece(whole).value()).value(), lent);
  EXPECT_EQ(parse_sum_piece(whole).value().piece, kPiece);
  Message longer = whole;
  longer.payload.emplace_back();
  EXPECT_FALSE(parse_sum_piece(longer));
  for (const transport::Extent stored : {transport::Extent{7, 2}, transport::Extent{0, 9}})
    EXPECT_FALSE(
        parse_shared_part(parse_sum_piece(encode(kPiece, {{3, 40}, {5, 80}, stored})).value()))
        << "outside the part";
  EXPECT_TRUE(parse_sum_piece(encode(SumKind::stored, kPiece, {})));
  EXPECT_FALSE(parse_sum_piece(encode(SumKind::stored, kPiece, std::vector<std::byte>(12))));
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

TEST(SumServer, HoldsPartsOfAFewChannelsOfAWorker) {
  SumServer server(2);
  SumPiece piece = kPiece;
  for (piece.channel = 0; piece.channel < SumServer::kMostChannels; ++piece.channel)
    EXPECT_THAT(server.on_message(0, pushed(1, 2, piece), {}), SizeIs(0));
  EXPECT_THAT(server.on_message(0, pushed(1, 2, piece), {}), SizeIs(1)) << "it is dropped";
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
      message.payload[static_cast<std::size_t>(numbers.unit() * 40)] =
          static_cast<std::byte>(numbers.unit() * 256);
    std::ignore = server->on_message(trial % 2, message, {});
  }
}

// Segments of two workers, which the servers of a test see: worker w's are 10 w + 1 and 10 w + 2.
class Segments final : public RegionUser {
 public:
  std::shared_ptr<const transport::SharedMemory> segment(int worker, std::uint64_t id) override {
    const auto found = memory_.find(id);
    return id / 10 == static_cast<std::uint64_t>(worker) && found != memory_.end() ? found->second
                                                                                   : nullptr;
  }
  bool use_regions(std::span<const int> workers, const std::function<void()>& use) override {
    borrowed_from.assign(workers.begin(), workers.end());
    use();
    return !has_failed;
  }
  float* floats(std::uint64_t id) { return reinterpret_cast<float*>(made(id)->bytes().data()); }
  const std::shared_ptr<const transport::SharedMemory>& made(std::uint64_t id) {
    auto& memory = memory_[id];
    if (memory == nullptr)
      memory = std::make_shared<const transport::SharedMemory>(
          transport::SharedMemory::create(4096).value());
    return memory;
  }

  bool has_failed = false;
  std::vector<int> borrowed_from;

 private:
  std::map<std::uint64_t, std::shared_ptr<const transport::SharedMemory>> memory_;
};

constexpr SumPiece kFour = {.channel = 3, .call = 7, .begin = 0, .count = 4, .all = 4};

TEST(SumServer, LentPartsAreReadWhereTheyLieAndTheirSumsStoredThereButForTheirEdges) {
  Segments segments;
  SumServer server(2, &segments);
  std::ranges::copy(std::initializer_list<float>{1, 2, 3, 4}, segments.floats(1) + 5);
  std::fill_n(segments.floats(2), 20, -1.0f);
  const SharedPart lent = {{1, 20}, {2, 40}, {4, 12}};
  EXPECT_THAT(server.on_message(0, encode(kFour, lent), {}), SizeIs(0));
  const float pushed_values[] = {10, 20, 30, 40};
  const Actions answers = server.on_message(
      1, encode(SumKind::push, kFour, std::as_bytes(std::span(pushed_values))), {});
  ASSERT_THAT(answers, SizeIs(2));
  const auto& to_lender = std::get<Send>(answers[0]).message;
  const float edges[] = {11, 44}, sum[] = {11, 22, 33, 44};
  EXPECT_EQ(to_lender, encode(SumKind::stored, kFour, std::as_bytes(std::span(edges))));
  EXPECT_EQ(std::get<Send>(answers[1]).message,
            encode(SumKind::sum, kFour, std::as_bytes(std::span(sum))));
  const std::vector<float> around(segments.floats(2) + 9, segments.floats(2) + 15);
  EXPECT_THAT(around, testing::ElementsAre(-1, -1, 22, 33, -1, -1));
  EXPECT_THAT(segments.borrowed_from, testing::ElementsAre(0));
}

TEST(SumServer, ASumOfWhatAFailedCallHadLentIsToldToNobody) {
  Segments segments;
  segments.has_failed = true;
  SumServer server(1, &segments);
  segments.made(1);
  EXPECT_THAT(server.on_message(0, encode(kFour, {{1, 0}, {1, 0}, {0, 16}}), {}), SizeIs(0));
}

TEST(SumServer, MemoryThatAWorkerDoesNotShareDropsIt) {
  Segments segments;
  segments.made(1);
  segments.made(11);
  const SharedPart wrong[] = {{{2, 0}, {1, 0}, {}},
                              {{1, 0}, {11, 0}, {}},
                              {{1, 4084}, {1, 0}, {}},
                              {{1, 6}, {1, 0}, {}},
                              {{1, 0}, {1, UINT64_MAX - 3}, {}}};
  for (const SharedPart& lent : wrong) {
    SumServer server(2, &segments);
    const Actions actions = server.on_message(0, encode(kFour, lent), {});
    ASSERT_THAT(actions, SizeIs(1));
    EXPECT_THAT(std::get<Drop>(actions[0]).why.what, HasSubstr("does not share"));
  }
  SumServer blind(2);
  EXPECT_THAT(blind.on_message(0, encode(kFour, wrong[0]), {}), SizeIs(1));
}

// A worker's memory of 2 MiB that its servers see; its stage is the second half.
class OwnMemory final : public RegionOwner {
 public:
  std::optional<transport::SharedRegion> share(int, Bytes own) const override {
    if (own.data() < all.data() || own.data() + own.size() > all.data() + all.size())
      return std::nullopt;
    const auto offset = static_cast<std::uint64_t>(own.data() - all.data());
    return transport::SharedRegion{{1, offset}, memory.whole_pages({offset, offset + own.size()})};
  }
  void revoke(const std::vector<transport::SharedRegion>& outputs, const Failure& why) override {
    revoked.push_back(fmt::format("{} for {}", outputs.size(), why.what));
  }

  const transport::SharedMemory memory =
      transport::SharedMemory::create(std::size_t{2} << 20).value();
  const MutableBytes all = memory.bytes(), stage = all.subspan(std::size_t{1} << 20);
  std::vector<std::string> revoked;
};

// Each answer is what a server would tell that had stored `sum` in lent memory.
Message stored_answer(const OwnMemory& there, const Message& pushed, std::byte sum) {
  const ReadPiece read = parse_sum_piece(pushed).value();
  const SharedPart lent = parse_shared_part(read).value();
  std::vector<std::byte> edges(read.piece.bytes() - lent.stored.size(), sum);
  std::fill_n(
      there.all.begin() + static_cast<std::ptrdiff_t>(lent.output.offset + lent.stored.begin),
      lent.stored.size(), sum);
  return encode(SumKind::stored, read.piece, edges);
}

TEST(SumWorker, LendsWhatLiesInSharedMemoryAndStagesWhatDoesNot) {
  OwnMemory there;
  SumWorker worker(1, 1, {.timeout = std::chrono::seconds(9)}, {}, {&there, there.stage});
  std::vector<std::byte> elsewhere(40'000, std::byte{1});
  const MutableBytes shared = there.all.subspan(100, 40'000);
  for (const MutableBytes array : {shared, MutableBytes(elsewhere)}) {
    std::ranges::fill(array, std::byte{1});
    bool is_done = false;
    worker.put({.channel = 1,
                .number = array.data() == shared.data() ? 1u : 2u,
                .input = {array.data(), array.size(), Dtype::u8},
                .output = {array.data(), array.size(), Dtype::u8},
                .done = [&](const std::optional<Failure>& failure) { is_done = !failure; }});
    const Actions pushed = worker.on_message(0, {.kind = SumWorker::kBegin}, {});
    const Message part = std::get<Send>(pushed.at(0)).message;
    ASSERT_EQ(part.kind, static_cast<std::uint32_t>(SumKind::shared));
    const Message answer = stored_answer(there, part, std::byte{7});
    EXPECT_EQ(parse_sum_piece(answer).value().rest.size(),
              array.data() == shared.data() ? 40'000u - 8 * 4096 : 0u)
        << "pages that can be taken back, or a stage where nothing else lies";
    EXPECT_THAT(worker.on_message(1, answer, {}), SizeIs(0));
    EXPECT_TRUE(is_done);
    EXPECT_THAT(array, testing::Each(std::byte{7}));
  }
  EXPECT_EQ(there.all[99], std::byte{0});
  EXPECT_EQ(there.all[40'100], std::byte{0});
}

TEST(SumWorker, ACallThatFailsRevokesWhatItHasLentBeforeItsCallerHearsOfIt) {
  OwnMemory there;
  SumWorker worker(1, 1, {.timeout = std::chrono::seconds(9)}, {}, {&there, there.stage});
  std::vector<std::byte> elsewhere(40'000);
  std::vector<std::string> told;
  for (const MutableBytes array : {MutableBytes(elsewhere), there.all.first(40'000)})
    worker.put({.channel = array.data() == elsewhere.data() ? 1u : 2u,
                .number = 1,
                .input = {array.data(), array.size(), Dtype::u8},
                .output = {array.data(), array.size(), Dtype::u8},
                .done = [&](const std::optional<Failure>&) {
                  told.push_back(there.revoked.empty() ? "nothing" : there.revoked.back());
                }});
  std::ignore = worker.on_message(0, {.kind = SumWorker::kBegin}, {});
  std::ignore = worker.on_message(0, {.kind = SumWorker::kCancel, .index = 1}, {});
  EXPECT_THAT(told, testing::ElementsAre("nothing")) << "its parts lie on the stage";
  std::ignore = worker.on_message(0, {.kind = SumWorker::kCancel, .index = 2}, {});
  EXPECT_THAT(told, SizeIs(2));
  EXPECT_THAT(told.back(), testing::StartsWith("1 for push_pull of 40000 u8"));
}

TEST(SumWorker, HasAFewPartsUnderWayToEachServerAndWritesTheSumsWhereTheyBelong) {
  constexpr std::size_t kCount = (std::size_t{5} << 20) / sizeof(float);  // 10 parts of 512 KiB..
  std::vector<float> values(kCount, 1);
  std::vector<std::optional<Failure>> ends;
  SumWorker worker(1, 2, {.timeout = std::chrono::seconds(9)});
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

TEST(SumWorker, AChannelWaitsForNoOther) {
  constexpr std::size_t kCount = std::size_t{8} << 20;  // more parts than a window
  std::vector<std::uint8_t> values(kCount);
  SumWorker worker(1, 1, {.timeout = std::chrono::seconds(9)});
  std::map<std::uint32_t, std::size_t> parts;
  for (const std::uint32_t channel : {1u, 2u}) {
    worker.put({.channel = channel,
                .number = 1,
                .input = buffer_of(values),
                .output = buffer_of(values),
                .done = [](const std::optional<Failure>&) {}});
    for (const auto& action : worker.on_message(0, {.kind = SumWorker::kBegin}, {}))
      if (const auto* send = std::get_if<Send>(&action))
        ++parts[parse_sum_piece(send->message).value().piece.channel];
  }
  EXPECT_THAT(parts, testing::ElementsAre(testing::Pair(1, SumWorker::kWindow),
                                          testing::Pair(2, SumWorker::kWindow)));
}

TEST(SumWorker, ASumThatMakesNoSenseDropsItsServer) {
  SumWorker worker(1, 1, {.timeout = std::chrono::seconds(9)});
  const Actions actions = worker.on_message(1, {.kind = 2}, {});
  ASSERT_THAT(actions, SizeIs(1));
  EXPECT_EQ(std::get<Drop>(actions[0]).peer, 1);
}

}  // namespace
}  // namespace paceline::server
