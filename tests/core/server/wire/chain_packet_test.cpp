// Packets between the servers of a chain, and the entries in them.
// Also covers paceline/core/server/wire/range_entry.cpp.
#include "paceline/core/server/wire/chain_packet.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/core/base/seed.h"
#include "paceline/core/server/machine/table_machine.h"
#include "tests/support/nightly.h"
#include "tests/support/seed.h"

namespace paceline::server {
namespace {

RangeEntry drawn_entry(SeededNumbers& numbers, std::size_t bytes) {
  RangeEntry entry{.kind = static_cast<EntryKind>(1 + numbers.below(13)),
                   .member = static_cast<int>(numbers.below(3)),
                   .clock = static_cast<std::int64_t>(numbers.below(6)),
                   .total = static_cast<double>(numbers.below(4))};
  const std::size_t pushes = entry.kind >= EntryKind::step   ? numbers.below(4)
                             : entry.kind > EntryKind::awake ? 1
                                                             : 0;
  for (std::size_t i = 0; i < pushes; ++i)
    entry.pushes.push_back({static_cast<int>(numbers.below(2)), 1 + numbers.below(3),
                            static_cast<std::int64_t>(numbers.below(3)), numbers.unit(),
                            numbers.below(3)});
  if (entry.kind > EntryKind::awake) entry.settings.assign(5, 0.5);
  if (numbers.below(4) > 0) entry.values.assign(bytes, std::byte{7});
  return entry;
}

ChainPacket drawn_packet(SeededNumbers& numbers, std::size_t bytes) {
  ChainPacket packet{.kind = static_cast<ChainKind>(64 + numbers.below(3)),
                     .range = static_cast<std::uint32_t>(numbers.below(2)),
                     .generation = 1 + numbers.below(2),
                     .index = numbers.below(4),
                     .commit = numbers.below(4),
                     .ready_at = numbers.below(2) == 0 ? kNeverReady : numbers.below(4),
                     .has_state = numbers.below(2) == 0,
                     .is_ready = numbers.below(2) == 0};
  if (packet.kind == ChainKind::forward)
    for (std::size_t i = numbers.below(4); i > 0; --i)
      packet.entries.push_back(drawn_entry(numbers, bytes));
  return packet;
}

TEST(ChainPacket, ComesBackAsItWasSent) {
  SeededNumbers numbers(test::seed(3510000));
  const std::vector<std::byte> state(24, std::byte{5});
  for (int number = 0; number < 1000; ++number) {
    ChainPacket packet = drawn_packet(numbers, 12);
    if (packet.kind == ChainKind::snapshot) packet.state = state;
    const machine::Message message = encode(packet);
    auto parsed = parse_chain_packet(message, 2);
    ASSERT_TRUE(parsed) << parsed.error().what;
    EXPECT_EQ(parsed->entries, packet.entries);
    EXPECT_EQ(encode(*parsed), message);
  }
}

TEST(ChainPacket, HasAHeaderOf40BytesAndAnEntry40AndWhatItHolds) {
  const RangeEntry step{.kind = EntryKind::step,
                        .pushes = {{0, 1, 0, 1, 0}, {1, 1, 0, 1, 0}},
                        .settings = {0.1, 0, 0},
                        .values = std::vector<std::byte>(100)};
  EXPECT_EQ(bytes_of(step), 40U + 2 * 40 + 3 * 8 + 100);
  EXPECT_EQ(encode({.kind = ChainKind::forward, .entries = {step, step}}).payload.size(),
            40U + 2 * bytes_of(step));
}

TEST(ChainPacket, WhatDoesNotFitIsRefused) {
  const auto error_of = [](const machine::Message& message) {
    const auto parsed = parse_chain_packet(message, 2);
    return parsed ? "" : parsed.error().what;
  };
  EXPECT_THAT(error_of(encode({.kind = ChainKind::forward, .range = 2})),
              testing::HasSubstr("a range"));
  EXPECT_THAT(error_of({.kind = 64, .payload = std::vector<std::byte>(12)}),
              testing::HasSubstr("shorter than its header"));
  const RangeEntry weightless{.kind = EntryKind::drop, .pushes = {{0, 1, 0, -1, 0}}};
  EXPECT_THAT(error_of(encode({.kind = ChainKind::forward, .entries = {weightless}})),
              testing::HasSubstr("an entry that is none"));
}

// A server may be sent anything: it refuses or leaves it, and never reads outside of what came.
void expect_that_a_chain_bears_anything(const char* synchrony, const char* rule,
                                        std::uint64_t of_seed) {
  const TableShape shape = shape_of({.name = "w",
                                     .elements = 6,
                                     .synchrony = synchrony,
                                     .rule = rule,
                                     .part_bytes = 12,
                                     .replicas = 3},
                                    {{0, 1}, {2, 3, 4}})
                               .value();
  SeededNumbers numbers(test::seed(of_seed));
  const int frames = test::is_nightly() ? 1'000'000 : 100'000;
  std::unique_ptr<TableMachine> server;
  for (int number = 0; number < frames; ++number) {
    if (number % 100 == 0) server = std::make_unique<TableMachine>(shape, 3);
    ChainPacket packet = drawn_packet(numbers, 12);
    std::vector<std::byte> state;
    if (packet.kind == ChainKind::snapshot && numbers.below(2) == 0) {
      transport::WireWriter writer;
      server->parts().at(packet.range).chain().state().write(writer);
      state = writer.bytes();
      if (numbers.below(2) == 0)
        state[numbers.below(state.size())] ^= std::byte(1 << numbers.below(8));
      packet.state = state;
      packet.index = numbers.below(2) == 0 ? packet.index : 7;
    }
    machine::Message message = encode(packet);
    if (numbers.below(4) == 0)
      message.payload[numbers.below(message.payload.size())] ^= std::byte(1 << numbers.below(8));
    if (numbers.below(8) == 0) message.payload.resize(numbers.below(120));
    std::ignore = server->on_message(static_cast<int>(numbers.below(5)), message, {});
    if (numbers.below(50) == 0)
      std::ignore = server->on_message(
          3,
          {.kind = TableMachine::kChains,
           .payload = encode(std::vector<Chain>{
               {numbers.below(4), {2, 3}, 4}, {numbers.below(4), {3, 4}, {}}, {1, {4, 2, 3}, {}}})},
          {});
  }
}

TEST(ChainPacket, WhateverComesAServerOfAChainDoesNotFail) {
  expect_that_a_chain_bears_anything("asp", "sgd", 3520000);
}

TEST(ChainPacket, WhateverComesAServerOfAChainOfAConsensusDoesNotFail) {
  expect_that_a_chain_bears_anything("admm:barrier=2,delay=2", "add", 3521000);
}

}  // namespace
}  // namespace paceline::server
