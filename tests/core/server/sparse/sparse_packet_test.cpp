// Packets of sparse tables, and of the chains of their shares.
// Also covers paceline/core/server/sparse/share_change.cpp.
#include "paceline/core/server/sparse/sparse_packet.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "paceline/core/base/seed.h"
#include "paceline/core/server/sparse/sparse_machine.h"
#include "tests/support/nightly.h"
#include "tests/support/seed.h"

namespace paceline::server {
namespace {

using testing::HasSubstr;

const SparseShape& packet_shape(const std::string& synchrony = "bsp") {
  static std::map<std::string, SparseShape> shapes;
  const auto found = shapes.find(synchrony);
  if (found != shapes.end()) return found->second;
  return shapes
      .emplace(synchrony, shape_of(SparseTableSpec{.name = "u", .width = 2, .synchrony = synchrony},
                                   TableMembers::of_servers(3, 2))
                              .value())
      .first->second;
}

SharedIds ids_of_share(SeededNumbers& numbers, std::uint32_t share, std::size_t most) {
  IdList ids;
  for (std::uint64_t id = numbers.below(60); ids.size() < most; id += 1 + numbers.below(9))
    if (packet_shape().share_of(hash_of_id(id)) == share) ids.push_back(id);
  return std::make_shared<const IdList>(std::move(ids));
}

Bytes some_rows(std::size_t count) {
  static const std::vector<std::byte> all(256);
  return Bytes(all).first(8 * count);
}

SparsePacket drawn_sparse_packet(SeededNumbers& numbers) {
  SparsePacket packet{.kind = static_cast<SparseKind>(32 + numbers.below(20)),
                      .share = static_cast<std::uint32_t>(numbers.below(2)),
                      .number = numbers.below(12),
                      .sequence = numbers.below(12),
                      .clock = static_cast<std::int64_t>(numbers.below(12)) - 2};
  if (packet.kind == SparseKind::push || packet.kind == SparseKind::pull) {
    packet.ids = ids_of_share(numbers, packet.share, numbers.below(6));
    const ListKey key = key_of(*packet.ids);
    packet.list = key.hash;
    packet.count = key.count;
    if (numbers.below(2) == 0) packet.ids = nullptr;
  }
  if (packet.kind == SparseKind::fetch) packet.count = numbers.below(20);
  if (packet.kind == SparseKind::fetched || packet.kind == SparseKind::store) {
    packet.ids = ids_of_share(numbers, packet.share, numbers.below(6));
    packet.count = packet.ids->size();
    packet.rows = some_rows(2 * packet.count);  // a state as long as the values
  }
  if (packet.kind == SparseKind::rows) packet.count = numbers.below(8);
  if (packet.kind == SparseKind::push || packet.kind == SparseKind::rows)
    packet.rows = some_rows(packet.count);
  if (packet.kind == SparseKind::push) packet.weight = packet.rate = numbers.unit();
  if (packet.kind == SparseKind::missing) {
    packet.members.assign(numbers.below(4), 1);
    packet.count = packet.members.size();
  }
  if (packet.kind == SparseKind::rested) {
    packet.counted = numbers.next();
    packet.evicted = numbers.next();
  }
  if (packet.kind == SparseKind::failed) packet.text = "a text";
  return packet;
}

std::string refusal(const SparsePacket& packet) {
  const auto parsed = parse_sparse_packet(encode(packet), packet_shape());
  return parsed ? "" : parsed.error().what;
}

TEST(SparsePacket, ComesBackAsItWasSent) {
  SeededNumbers numbers(test::seed(3220000));
  for (int number = 0; number < 1000; ++number) {
    const SparsePacket packet = drawn_sparse_packet(numbers);
    const machine::Message message = encode(packet);
    auto parsed = parse_sparse_packet(message, packet_shape());
    ASSERT_TRUE(parsed) << parsed.error().what;
    EXPECT_EQ(encode(*parsed), message);
  }
}

TEST(SparsePacket, HasAHeaderOf40BytesAndEightMoreForAListThatIsKnown) {
  EXPECT_EQ(encode({.kind = SparseKind::rest}).payload.size(), kSparseHeader);
  EXPECT_EQ(encode({.kind = SparseKind::pull, .count = 1000}).payload.size(), kSparseHeader + 8);
  EXPECT_EQ(encode({.kind = SparseKind::rows, .count = 3, .rows = some_rows(3)}).payload.size(),
            kSparseHeader + 24);
}

TEST(SparsePacket, WhatDoesNotFitIsRefused) {
  const auto listed = [](IdList ids, std::uint32_t share) {
    const ListKey key = key_of(ids);
    return SparsePacket{.kind = SparseKind::pull,
                        .share = share,
                        .count = key.count,
                        .list = key.hash,
                        .ids = std::make_shared<const IdList>(std::move(ids))};
  };
  SeededNumbers numbers(1);
  const IdList two = *ids_of_share(numbers, 0, 2);
  EXPECT_EQ(refusal(listed(two, 0)), "");
  EXPECT_THAT(refusal(listed({two[1], two[0]}, 0)), HasSubstr("do not ascend"));
  EXPECT_THAT(refusal(listed({two[0], two[0]}, 0)), HasSubstr("do not ascend"));
  EXPECT_THAT(refusal(listed(two, 1)), HasSubstr("ids of another share"));
  EXPECT_THAT(refusal(listed({std::uint64_t{1} << 48}, 0)), HasSubstr("more than 48 bits"));
  SparsePacket wrong = listed(two, 0);
  ++wrong.list;
  EXPECT_THAT(refusal(wrong), HasSubstr("other ids than their hash"));
  wrong = listed(two, 0);
  wrong.count = std::uint64_t{1} << 61;
  EXPECT_THAT(refusal(wrong), HasSubstr("the ids that it says"));
  EXPECT_THAT(refusal({.kind = SparseKind::pull, .share = 2}), HasSubstr("a share"));
  EXPECT_THAT(refusal({.kind = SparseKind::rows, .count = 2}), HasSubstr("the rows"));
  EXPECT_THAT(
      refusal({.kind = SparseKind::push, .weight = std::numeric_limits<double>::quiet_NaN()}),
      HasSubstr("no number"));
  EXPECT_THAT(refusal({.kind = SparseKind::missing, .count = 3, .members = {1}}),
              HasSubstr("the members"));
  EXPECT_THAT(refusal({.kind = static_cast<SparseKind>(1)}), HasSubstr("no known kind"));
}

// A client may send anything: a server holds no more than a window of requests a worker, and never
// reads outside of what came.
TEST(SparsePacket, WhateverComesAServerNeitherFailsNorGrows) {
  SeededNumbers numbers(test::seed(3230000));
  const int frames = test::is_nightly() ? 1'000'000 : 100'000;
  std::unique_ptr<SparseMachine> server;
  for (int number = 0; number < frames; ++number) {
    const SparseShape& shape = packet_shape(number / 500 % 3 == 0   ? "bsp"
                                            : number / 500 % 3 == 1 ? "ssp"
                                                                    : "asp");
    if (number % 500 == 0) server = std::make_unique<SparseMachine>(shape, 3);
    SparsePacket packet = drawn_sparse_packet(numbers);
    if (numbers.below(4) > 0 && packet.share == 1 && !packet.ids) packet.share = 0;
    if (packet.kind == SparseKind::begin) packet.sequence = shape.fingerprint();
    if (packet.kind == SparseKind::leave && numbers.below(10) > 0) packet.kind = SparseKind::rest;
    if (packet.kind == SparseKind::push && numbers.below(2) == 0)
      packet.clock = server->parts().at(0).value().clock();
    machine::Message message = encode(packet);
    if (numbers.below(8) == 0 && !message.payload.empty())
      message.payload[numbers.below(message.payload.size())] ^= std::byte(1 << numbers.below(8));
    if (numbers.below(16) == 0) message.payload.resize(numbers.below(80));
    if (numbers.below(16) == 0) message.kind = static_cast<std::uint32_t>(numbers.below(60));
    std::ignore = server->on_message(static_cast<int>(numbers.below(3)), message, {});
    ASSERT_LE(server->parts().at(0).most_held(), static_cast<std::size_t>(kWindow))
        << "frame " << number;
    ASSERT_LE(server->parts().at(0).most_open_steps(), std::size_t{1}) << "frame " << number;
  }
}

ShareChange drawn_change(SeededNumbers& numbers, std::uint32_t share, const SparseShape& shape) {
  ShareChange change{.kind = static_cast<ShareChange::Kind>(1 + numbers.below(6)),
                     .worker = static_cast<int>(numbers.below(3)),
                     .total = static_cast<double>(numbers.below(4)),
                     .rule_steps = static_cast<std::int64_t>(numbers.below(6)),
                     .number = numbers.below(4)};
  const bool is_taken = change.kind == ShareChange::Kind::taken;
  const bool is_store = change.kind == ShareChange::Kind::store;
  const bool is_step = change.kind == ShareChange::Kind::step;
  for (int worker = 0; worker < 2 && (is_taken || is_step); ++worker)
    if (is_step ? numbers.below(2) == 0 : worker == 0)
      change.decided.push_back({is_taken ? change.worker : worker, 1 + numbers.below(3),
                                static_cast<std::int64_t>(numbers.below(3))});
  if (!is_taken && !is_store && !is_step) return change;
  SparsePush push{.worker = change.worker, .weight = numbers.unit(), .rate = numbers.unit()};
  if (!change.decided.empty()) {
    push.sequence = change.decided.front().sequence;
    push.stamp = change.decided.front().stamp;
  }
  push.rows.ids = ids_of_share(numbers, share, numbers.below(5));
  const std::size_t each = shape.value_bytes() + (is_store ? shape.state_bytes() : 0);
  push.rows.rows.assign(push.rows.ids->size() * each, std::byte{1});
  if (is_step && numbers.below(2) == 0)
    for (std::size_t i = 0; i < push.rows.ids->size(); ++i)
      push.counts.push_back(static_cast<std::uint32_t>(numbers.below(4)));
  change.pushes.push_back(std::move(push));
  return change;
}

ShareChainPacket drawn_chain_packet(SeededNumbers& numbers, const SparseShape& shape) {
  ShareChainPacket packet{.kind = static_cast<ChainKind>(64 + numbers.below(3)),
                          .range = static_cast<std::uint32_t>(numbers.below(2)),
                          .generation = 1 + numbers.below(2),
                          .index = numbers.below(4),
                          .commit = numbers.below(4),
                          .ready_at = numbers.below(2) == 0 ? kNeverReady : numbers.below(4),
                          .has_state = numbers.below(2) == 0,
                          .is_ready = numbers.below(2) == 0};
  if (packet.kind == ChainKind::forward)
    for (std::size_t i = numbers.below(4); i > 0; --i)
      packet.entries.push_back(drawn_change(numbers, packet.range, shape));
  return packet;
}

TEST(ShareChange, ComesBackAsItWasSentAndHasTheBytesThatItSays) {
  SeededNumbers numbers(test::seed(3700000));
  for (int number = 0; number < 1000; ++number) {
    const ShareChange change = drawn_change(numbers, 0, packet_shape());
    transport::WireWriter writer;
    write_entry(change, writer);
    EXPECT_EQ(writer.bytes().size(), bytes_of(change));
    transport::WireReader reader(writer.bytes());
    ShareChange read;
    ASSERT_TRUE(read_entry(reader, read)) << name_of(change.kind);
    EXPECT_TRUE(reader.ok_and_empty());
    transport::WireWriter again;
    write_entry(read, again);
    EXPECT_EQ(again.bytes(), writer.bytes());
  }
  EXPECT_EQ(bytes_of(ShareChange{.kind = ShareChange::Kind::wake}), kShareChangeHeader);
}

TEST(ShareChange, CountsOfPushesAreForNoIdOrForEveryOneAndFitTheStep) {
  const SparseShape shape = shape_of(SparseTableSpec{.name = "u", .width = 1, .admit_after = 3},
                                     TableMembers::of_servers(2, 1))
                                .value();
  ShareState state(shape, 0);
  const auto complaint = [&](std::vector<std::uint32_t> counts, bool is_read) {
    ShareChange change{.kind = ShareChange::Kind::step, .total = 2};
    change.decided = {{0, 1, 0}, {1, 1, 0}};
    change.pushes.push_back(
        {.rows = {std::make_shared<const IdList>(IdList{1, 2}), std::vector<std::byte>(8)},
         .counts = std::move(counts)});
    transport::WireWriter writer;
    write_entry(change, writer);
    transport::WireReader reader(writer.bytes());
    ShareChange read;
    EXPECT_EQ(read_entry(reader, read), is_read);
    return is_read ? state.complaint(read) : "";
  };
  EXPECT_EQ(complaint({}, true), "");
  EXPECT_EQ(complaint({1, 2}, true), "");
  EXPECT_THAT(complaint({0, 2}, true), HasSubstr("counts other pushes"));
  EXPECT_THAT(complaint({1, 3}, true), HasSubstr("counts other pushes"));
  complaint({1}, false);
  complaint({1, 1, 1}, false);
}

// A server may be sent anything by another one: it refuses or leaves it, and never reads outside of
// what came.
TEST(ShareChange, WhateverComesAServerOfAChainDoesNotFail) {
  SeededNumbers numbers(test::seed(3710000));
  const int frames = test::is_nightly() ? 1'000'000 : 100'000;
  const auto shape_under = [](const char* synchrony, int admit_after, int evict_after) {
    return shape_of(SparseTableSpec{.name = "u",
                                    .width = 2,
                                    .synchrony = synchrony,
                                    .admit_after = admit_after,
                                    .evict_after = evict_after,
                                    .replicas = 2},
                    TableMembers::of_servers(3, 2))
        .value();
  };
  const SparseShape shapes[] = {shape_under("bsp", 0, 0), shape_under("asp", 0, 0),
                                shape_under("bsp", 3, 2), shape_under("asp", 2, 0)};
  std::unique_ptr<SparseMachine> server;
  for (int number = 0; number < frames; ++number) {
    if (number % 100 == 0) server = std::make_unique<SparseMachine>(shapes[number / 100 % 4], 4);
    ShareChainPacket packet = drawn_chain_packet(numbers, shapes[number / 100 % 4]);
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
    if (numbers.below(8) == 0) message.payload.resize(numbers.below(200));
    std::ignore = server->on_message(static_cast<int>(numbers.below(5)), message, {});
    if (numbers.below(20) == 0)
      std::ignore =
          server->on_message(4,
                             {.kind = SparseMachine::kChains,
                              .payload = encode(std::vector<Chain>{
                                  {numbers.below(4), {3}, 4}, {numbers.below(4), {4, 3}, {}}})},
                             {});
  }
}

}  // namespace
}  // namespace paceline::server
