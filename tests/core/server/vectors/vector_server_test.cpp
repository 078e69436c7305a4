// A server's machine alone, its bytes and its arithmetic.
// Also covers paceline/core/server/vectors/vector_packet.cpp and
// paceline/core/server/vectors/vector_shard.cpp.
#include "paceline/core/server/vectors/vector_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "paceline/core/base/seed.h"
#include "paceline/core/server/vectors/vector_member.h"
#include "paceline/core/transport/frame/frame.h"
#include "tests/support/nightly.h"
#include "tests/support/seed.h"

namespace paceline::server {
namespace {

using machine::Actions;
using machine::Drop;
using machine::Message;
using machine::Send;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

constexpr VectorLimits kSmall = {.vectors = 8, .shard_bytes = 24};

VectorShape small_shape(Dtype dtype = Dtype::f64) {
  return {.name = "sandblaster",
          .elements = 5,
          .dtype = dtype,
          .samples = 20,
          .portion = 3,
          .history = 2,
          .members = {{0, 1}, {2, 3}}};
}

template <typename T>
std::vector<T> numbers_in(Bytes bytes) {
  std::vector<T> numbers(bytes.size() / sizeof(T));
  if (!bytes.empty()) std::memcpy(numbers.data(), bytes.data(), bytes.size());
  return numbers;
}

const Message& message_of(const Actions& actions) {
  return std::get<Send>(actions.at(0)).message;
}

VectorPacket drawn_packet_of_vectors(SeededNumbers& numbers, Bytes shard) {
  VectorPacket packet{.kind = static_cast<VectorKind>(1 + numbers.below(13)),
                      .number = numbers.below(9),
                      .evaluation = numbers.below(4)};
  if (packet.kind == VectorKind::carry_out)
    for (std::uint64_t i = numbers.below(5); i-- > 0;)
      packet.commands.push_back({static_cast<VectorOp>(1 + numbers.below(6)),
                                 static_cast<std::uint8_t>(numbers.below(8)),
                                 static_cast<std::uint8_t>(numbers.below(8)), numbers.unit()});
  if (packet.kind == VectorKind::carried_out) packet.values.assign(numbers.below(4), 0.5);
  if (packet.kind == VectorKind::store || packet.kind == VectorKind::gradient ||
      (packet.kind == VectorKind::values && numbers.below(2) == 0))
    packet.elements = shard;
  if (packet.kind == VectorKind::done || packet.kind == VectorKind::over)
    packet.loss = numbers.unit();
  if (packet.kind == VectorKind::over) packet.text = "a text";
  return packet;
}

TEST(VectorPacket, ComesBackAsItWasSent) {
  SeededNumbers numbers(test::seed(4610000));
  const std::vector<std::byte> shard(kSmall.shard_bytes, std::byte(7));
  for (int number = 0; number < 1000; ++number) {
    const Message message = encode(drawn_packet_of_vectors(numbers, shard));
    auto parsed = parse_vector_packet(message, kSmall);
    ASSERT_TRUE(parsed) << message.kind;
    EXPECT_EQ(encode(*parsed), message);
    for (std::size_t length = 0; length < kVectorHeader; ++length) {
      Message cut = message;
      cut.payload.resize(length);
      EXPECT_FALSE(parse_vector_packet(cut, kSmall)) << length;
    }
  }
}

TEST(VectorPacket, HasAHeaderOf16BytesAndCommandsOf12) {
  EXPECT_EQ(encode({.kind = VectorKind::want}).payload.size(), kVectorHeader);
  const std::vector<VectorCommand> two(2);
  EXPECT_EQ(encode({.kind = VectorKind::carry_out, .commands = two}).payload.size(),
            kVectorHeader + 2 * kVectorCommandBytes);
  EXPECT_EQ(encode({.kind = VectorKind::done}).payload.size(), kVectorHeader + 8);
}

TEST(VectorPacket, WhatMakesNoSenseIsRefused) {
  const auto error_of = [](const VectorPacket& packet) {
    const auto parsed = parse_vector_packet(encode(packet), kSmall);
    return parsed ? "" : parsed.error().what;
  };
  EXPECT_THAT(error_of({.kind = static_cast<VectorKind>(14)}), HasSubstr("no known kind"));
  EXPECT_THAT(error_of({.kind = VectorKind::carry_out, .commands = {{VectorOp::copy, 8, 0}}}),
              HasSubstr("makes no sense"));
  EXPECT_THAT(error_of({.kind = VectorKind::carry_out, .commands = {{VectorOp::copy, 0, 8}}}),
              HasSubstr("makes no sense"));
  EXPECT_THAT(error_of({.kind = VectorKind::carry_out, .commands = {{static_cast<VectorOp>(7)}}}),
              HasSubstr("makes no sense"));
  EXPECT_THAT(error_of({.kind = VectorKind::carry_out,
                        .commands = std::vector<VectorCommand>(kMostCommands + 1)}),
              HasSubstr("too many"));
  const std::vector<std::byte> longer(kSmall.shard_bytes + 8);
  EXPECT_THAT(error_of({.kind = VectorKind::gradient, .elements = longer}),
              HasSubstr("elements of a shard"));
  EXPECT_THAT(error_of({.kind = VectorKind::store}), HasSubstr("elements of a shard"));
  EXPECT_THAT(error_of({.kind = VectorKind::fetch, .values = {1}}), HasSubstr("the length"));
}

template <typename T>
void expect_arithmetic(Dtype dtype) {
  const auto bytes = [](const std::vector<T>& numbers) {
    return std::as_bytes(std::span(numbers));
  };
  VectorShard shard(3, dtype, 3);
  const std::vector<T> a = {1, -2, 3}, b = {T(0.1), T(0.2), T(0.3)};
  shard.store(0, bytes(a));
  shard.store(1, bytes(b));
  const T factor = T(0.7);
  const std::vector<VectorCommand> commands = {
      {VectorOp::copy, 2, 0},     {VectorOp::axpy, 2, 1, factor}, {VectorOp::dot, 0, 1},
      {VectorOp::scale, 0, 0, 2}, {VectorOp::sum_abs, 0},         {VectorOp::greatest, 0}};
  const auto values = shard.carry_out(commands);
  double dot = 0;
  for (std::size_t i = 0; i < 3; ++i) dot += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  EXPECT_THAT(values, ElementsAre(dot, 12, 6));
  EXPECT_EQ(numbers_in<T>(shard.bytes(0)), (std::vector<T>{2, -4, 6}));
  EXPECT_EQ(numbers_in<T>(shard.bytes(2)),
            (std::vector<T>{a[0] + factor * b[0], a[1] + factor * b[1], a[2] + factor * b[2]}));
  shard.clear(2);
  shard.add(2, bytes(b));
  shard.add(2, bytes(b));
  EXPECT_EQ(numbers_in<T>(shard.bytes(2)), (std::vector<T>{2 * b[0], 2 * b[1], 2 * b[2]}));
}

TEST(VectorShard, CarriesOutEachCommandInTheVectorsType) {
  expect_arithmetic<float>(Dtype::f32);
  expect_arithmetic<double>(Dtype::f64);
}

TEST(VectorShard, TheGreatestOfNumbersWithANaNIsNaN) {
  for (const std::vector<double>& numbers :
       {std::vector<double>{std::nan(""), 1}, std::vector<double>{1, std::nan("")}}) {
    VectorShard shard(2, Dtype::f64, 1);
    shard.store(0, std::as_bytes(std::span(numbers)));
    const VectorCommand greatest{VectorOp::greatest};
    EXPECT_TRUE(std::isnan(shard.carry_out({&greatest, 1}).at(0)));
  }
}

class SmallServer {
 public:
  // Server 0 of two has three of the five elements.
  Actions tell(int from, const VectorPacket& packet) {
    return server.on_message(from, encode(packet), {});
  }
  void expect_dropped(int from, const VectorPacket& packet) {
    const Actions actions = tell(from, packet);
    ASSERT_THAT(actions, SizeIs(1));
    EXPECT_EQ(std::get<Drop>(actions[0]).peer, from);
  }
  Actions gradient(int from, std::uint64_t portion, double value, std::uint64_t evaluation = 1) {
    const std::vector<double> numbers(3, value);
    return tell(from, {.kind = VectorKind::gradient,
                       .number = portion,
                       .evaluation = evaluation,
                       .elements = std::as_bytes(std::span(numbers))});
  }
  double sum() {
    const VectorPacket ask{.kind = VectorKind::carry_out,
                           .number = ++lists,
                           .commands = {{VectorOp::sum_abs, NamedVector::gradient}}};
    const auto answer = parse_vector_packet(message_of(tell(0, ask)), {}).value();
    return answer.values.at(0);
  }
  void begin(std::uint64_t evaluation) {
    tell(0, {.kind = VectorKind::carry_out, .number = ++lists, .evaluation = evaluation});
  }

  const VectorShape shape = small_shape();
  VectorServer server{shape, 2};
  std::uint64_t lists = 0;
};

TEST(VectorServer, SumsEachPortionOnceAndInOrder) {
  SmallServer small;
  small.begin(1);
  // With these numbers any other order has other bits.
  const double values[] = {1e17, 3, -1e17, 5};
  const double expected = 3 * ((((0 + values[0]) + values[1]) + values[2]) + values[3]);
  small.gradient(0, 0, values[0]);
  small.gradient(1, 2, values[2]);
  small.gradient(1, 2, 77);
  small.gradient(0, 3, values[3]);
  EXPECT_EQ(small.sum(), 3e17) << "those that come early wait";
  small.gradient(0, 1, values[1]);
  EXPECT_EQ(small.sum(), expected);
  small.gradient(0, 0, 1);
  EXPECT_EQ(small.sum(), expected);
  EXPECT_EQ(small.server.repeats(), 2u);
  EXPECT_EQ(small.server.most_waiting(), 2u);
}

TEST(VectorServer, AnswersLateGradientsAndTakesNone) {
  SmallServer small;
  small.begin(1);
  small.begin(2);
  const Actions answers = small.gradient(1, 0, 5);
  EXPECT_EQ(static_cast<VectorKind>(message_of(answers).kind), VectorKind::taken);
  EXPECT_EQ(small.sum(), 0);
}

TEST(VectorServer, GivesTheParametersOfAnEvaluationUntilTheyAreGone) {
  SmallServer small;
  const std::vector<double> first = {1, 2, 3};
  small.tell(0, {.kind = VectorKind::store, .elements = std::as_bytes(std::span(first))});
  const auto given = [&](std::uint64_t evaluation) {
    const Message message =
        message_of(small.tell(1, {.kind = VectorKind::fetch, .evaluation = evaluation}));
    return numbers_in<double>(parse_vector_packet(message, {8, 24}).value().elements);
  };
  EXPECT_EQ(given(0), first);
  small.begin(1);
  EXPECT_EQ(given(1), first);
  EXPECT_THAT(given(0), SizeIs(0));
  small.tell(0, {.kind = VectorKind::carry_out,
                 .number = ++small.lists,
                 .evaluation = 2,
                 .commands = {{VectorOp::copy, NamedVector::base, NamedVector::here},
                              {VectorOp::scale, NamedVector::here, 0, 2}}});
  EXPECT_EQ(given(1), first);
  EXPECT_EQ(given(2), (std::vector<double>{2, 4, 6}));
  small.tell(0, {.kind = VectorKind::carry_out,
                 .number = ++small.lists,
                 .commands = {{VectorOp::copy, NamedVector::here, NamedVector::base}}});
  EXPECT_EQ(given(1), first);
  EXPECT_THAT(given(2), SizeIs(0));
}

TEST(VectorServer, HearsWhatNoMemberSaysOnceAndThenNoMore) {
  const std::vector<double> shard(3);
  const Bytes elements = std::as_bytes(std::span(shard));
  const VectorPacket senseless[] = {
      {.kind = VectorKind::carry_out, .number = 2},
      {.kind = VectorKind::values, .elements = elements},
      {.kind = VectorKind::gradient, .number = 0, .evaluation = 9, .elements = elements},
      {.kind = VectorKind::gradient, .number = 4, .evaluation = 1, .elements = elements},
      {.kind = VectorKind::gradient, .number = 7, .evaluation = 1, .elements = elements},
      {.kind = VectorKind::want}};
  for (const VectorPacket& packet : senseless) {
    SmallServer small;
    small.begin(1);
    small.expect_dropped(1, packet);
    EXPECT_THAT(small.gradient(1, 0, 1), SizeIs(0)) << "it is heard no more";
  }
  SmallServer small;
  small.expect_dropped(1, {.kind = VectorKind::store, .elements = elements});
  small.expect_dropped(3, {.kind = VectorKind::fetch});
  EXPECT_TRUE(small.server.serves_members());
  small.server.on_lost(0, {});
  EXPECT_FALSE(small.server.serves_members());
}

Message drawn_message(SeededNumbers& numbers, Bytes shard) {
  Message message = encode(drawn_packet_of_vectors(numbers, shard));
  if (numbers.below(4) == 0 && !message.payload.empty())
    message.payload[numbers.below(message.payload.size())] ^= std::byte(1 << numbers.below(8));
  if (numbers.below(8) == 0) message.payload.resize(numbers.below(60));
  if (numbers.below(8) == 0) message.kind = static_cast<std::uint32_t>(numbers.below(16));
  return message;
}

// A member may send anything: a server holds no more than its shards and a window of gradients, and
// nobody reads outside of what came.
TEST(VectorServer, WhateverComesNeitherItNorAWorkerFailsOrGrows) {
  SeededNumbers numbers(test::seed(4620000));
  const VectorShape shape = small_shape();
  const std::vector<std::byte> shard(24);
  const int frames = test::is_nightly() ? 1'000'000 : 100'000;
  std::unique_ptr<VectorServer> server;
  std::unique_ptr<VectorMember> leader, worker;
  for (int number = 0; number < frames; ++number) {
    if (number % 50 == 0) {
      server = std::make_unique<VectorServer>(shape, 2);
      leader = std::make_unique<VectorMember>(shape, 0, LbfgsOptions{});
      worker = std::make_unique<VectorMember>(shape, 1, LbfgsOptions{});
      for (auto* const member : {leader.get(), worker.get()}) {
        member->do_work([](PortionWorker& one) { return one.enter(); });
        std::ignore =
            member->on_message(member == leader.get() ? 0 : 1, {.kind = VectorMember::kWork}, {});
      }
    }
    const Message message = drawn_message(numbers, shard);
    const int from = static_cast<int>(numbers.below(5));
    std::ignore = server->on_message(from, message, {});
    ASSERT_LE(server->most_waiting(), static_cast<std::size_t>(shape.window()));
    for (auto* const member : {leader.get(), worker.get()}) {
      if (message.kind == VectorMember::kWork) continue;
      std::ignore = member->on_message(from, message, {});
      if (!member->look([](PortionWorker& one) { return one.has_portion(); })) continue;
      member->do_work([&](PortionWorker& one) {
        EXPECT_LT(one.take_portion().number, 7u);
        return one.computed(1, std::vector<std::byte>(40));
      });
      std::ignore =
          member->on_message(member == leader.get() ? 0 : 1, {.kind = VectorMember::kWork}, {});
    }
  }
}

}  // namespace
}  // namespace paceline::server
