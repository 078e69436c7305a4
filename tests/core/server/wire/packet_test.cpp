#include "paceline/core/server/wire/packet.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "paceline/core/base/seed.h"
#include "paceline/core/server/machine/table_machine.h"
#include "tests/support/nightly.h"
#include "tests/support/seed.h"

namespace paceline::server {
namespace {

constexpr PacketLimits kEightRanges = {.ranges = 8, .element_bytes = 4};

// Elements of 4 bytes, as a packet has them: they lie elsewhere.
Bytes elements(std::size_t count) {
  static const std::vector<std::byte> all(32);
  return Bytes(all).first(4 * count);
}

Packet drawn_packet(SeededNumbers& numbers) {
  Packet packet{.kind = static_cast<PacketKind>(1 + numbers.below(16)),
                .range = static_cast<std::uint32_t>(numbers.below(8)),
                .flags = static_cast<std::uint32_t>(numbers.below(12)),
                .sequence = numbers.below(12),
                .clock = static_cast<std::int64_t>(numbers.below(12)) - 2};
  if (packet.kind == PacketKind::push) {
    packet.weight = numbers.unit();
    packet.read = numbers.below(12);
    packet.settings.assign(packet.flags, 0.5);
  }
  if (packet.kind == PacketKind::assign || packet.kind == PacketKind::push ||
      packet.kind == PacketKind::row || packet.kind == PacketKind::quiet) {
    packet.count = numbers.below(8);
    packet.elements = elements(packet.count);
  }
  if (packet.kind == PacketKind::row || packet.kind == PacketKind::quiet)
    packet.facts = {numbers.below(12), numbers.below(12), numbers.below(12), numbers.unit()};
  if (packet.kind == PacketKind::missing) {
    packet.sequence = numbers.below(5);
    packet.members.assign(numbers.below(4), 1);
    packet.count = packet.members.size();
  }
  if (packet.kind == PacketKind::failed) packet.text = "a text";
  if (packet.kind == PacketKind::pull || packet.kind == PacketKind::row)
    for (auto rounds = numbers.below(4); rounds > 0; --rounds)
      packet.rounds.push_back({numbers.below(12), std::vector<std::int32_t>(numbers.below(3), 1)});
  return packet;
}

TEST(Packet, ComesBackAsItWasSent) {
  SeededNumbers numbers(test::seed(2920000));
  for (int number = 0; number < 1000; ++number) {
    const Packet packet = drawn_packet(numbers);
    const machine::Message message = encode(packet);
    auto parsed = parse_packet(message, kEightRanges);
    ASSERT_TRUE(parsed);
    EXPECT_EQ(encode(*parsed), message);
  }
}

TEST(Packet, HasAHeaderOf32BytesAndFactsOf32InRows) {
  EXPECT_EQ(encode({.kind = PacketKind::pull}).payload.size(), kPacketHeader);
  EXPECT_EQ(encode({.kind = PacketKind::row, .count = 3, .elements = elements(3)}).payload.size(),
            kPacketHeader + kFactsBytes + 12);
  EXPECT_EQ(encode({.kind = PacketKind::pull, .rounds = {{1, {0, 1}}, {2, {1}}}}).payload.size(),
            kPacketHeader + 2 * 12 + 3 * 4);
}

TEST(Packet, WhatItsHeaderDoesNotFitIsRefused) {
  const auto error_of = [](const Packet& packet) {
    const auto parsed = parse_packet(encode(packet), kEightRanges);
    return parsed ? "" : parsed.error().what;
  };
  EXPECT_THAT(error_of({.kind = PacketKind::pull, .range = 8}), testing::HasSubstr("a range"));
  EXPECT_THAT(error_of({.kind = PacketKind::row, .count = 2}), testing::HasSubstr("elements"));
  EXPECT_THAT(error_of({.kind = PacketKind::missing, .count = 3, .members = {1, 2}}),
              testing::HasSubstr("the members that it says"));
  EXPECT_THAT(error_of({.kind = PacketKind::missing, .sequence = 5}),
              testing::HasSubstr("the members that it says"));
  EXPECT_THAT(error_of({.kind = PacketKind::push, .flags = 17}), testing::HasSubstr("too many"));
  EXPECT_THAT(error_of({.kind = PacketKind::pull, .elements = elements(2)}),
              testing::HasSubstr("rounds of another form"));
  EXPECT_THAT(error_of({.kind = PacketKind::quiet, .rounds = {{1, {0, 1}}}}),
              testing::HasSubstr("elements"));
  EXPECT_THAT(
      error_of({.kind = PacketKind::push, .weight = std::numeric_limits<double>::infinity()}),
      testing::HasSubstr("no number"));
  EXPECT_THAT(error_of({.kind = static_cast<PacketKind>(77)}), testing::HasSubstr("no known kind"));
}

// A client may send anything: the server holds no more than its table and a window of pushes a
// worker, and never reads outside of what came.
void expect_that_a_server_bears_anything(const char* synchrony, const char* rule,
                                         std::uint64_t of_seed) {
  const TableShape shape =
      shape_of(
          {.name = "w", .elements = 24, .synchrony = synchrony, .rule = rule, .part_bytes = 12},
          {{0, 1}, {2}})
          .value();
  const auto settings = static_cast<std::uint32_t>(shape.rule.entry.settings.size());
  SeededNumbers numbers(test::seed(of_seed));
  const int frames = test::is_nightly() ? 1'000'000 : 100'000;
  auto server = std::make_unique<TableMachine>(shape, 2);
  for (int number = 0; number < frames; ++number) {
    if (number % 500 == 0) server = std::make_unique<TableMachine>(shape, 2);
    Packet packet = drawn_packet(numbers);
    packet.range %= 4;
    if (numbers.below(4) > 0) {
      packet.count = 3;
      packet.elements = elements(3);
      packet.flags = packet.kind == PacketKind::push ? settings : packet.flags;
      packet.settings.assign(packet.kind == PacketKind::push ? settings : 0, 0.5);
      if (packet.kind == PacketKind::assign) packet.sequence = shape.fingerprint();
      if (packet.kind == PacketKind::leave && numbers.below(10) > 0) packet.kind = PacketKind::push;
    }
    machine::Message message = encode(packet);
    if (numbers.below(4) == 0 && !message.payload.empty())
      message.payload[numbers.below(message.payload.size())] ^= std::byte(1 << numbers.below(8));
    if (numbers.below(8) == 0) message.payload.resize(numbers.below(80));
    if (numbers.below(8) == 0) message.kind = static_cast<std::uint32_t>(numbers.below(20));
    std::ignore = server->on_message(static_cast<int>(numbers.below(4)), message, {});
    for (const auto& [range, machine] : server->parts()) {
      ASSERT_LE(machine.most_held(), static_cast<std::size_t>(kWindow)) << "frame " << number;
      ASSERT_LE(machine.most_open_steps(), static_cast<std::size_t>(kWindow)) << "frame " << number;
    }
  }
}

TEST(Packet, WhateverComesAServerNeitherFailsNorGrows) {
  expect_that_a_server_bears_anything("bounded_delay:steps=7", "sgd", 2930000);
}

TEST(Packet, WhateverComesAServerOfAConsensusNeitherFailsNorGrows) {
  expect_that_a_server_bears_anything("admm:barrier=2,delay=2", "add", 2931000);
}

}  // namespace
}  // namespace paceline::server
