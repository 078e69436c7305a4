#include "paceline/core/server/machine/table_register.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/core/server/table/chain.h"
#include "paceline/core/server/wire/declaration.h"
#include "paceline/core/transport/frame/wire.h"

namespace paceline::server {
namespace {

using machine::Actions;
using machine::Drop;
using machine::Message;
using machine::Send;
using testing::HasSubstr;
using testing::SizeIs;

constexpr int kDeclarers = 3, kKeeper = 3;

Message declares(std::size_t elements, std::uint32_t number = 4) {
  return TableDeclarer::declaration(TableSpec{.name = "w", .elements = elements}, number);
}
Message says(RegisterKind kind) {
  return {.kind = static_cast<std::uint32_t>(kind), .payload = {}};
}
Message opens(std::uint32_t number) {
  const Bytes bytes = std::as_bytes(std::span(&number, 1));
  return {.kind = static_cast<std::uint32_t>(RegisterKind::open),
          .payload = {bytes.begin(), bytes.end()}};
}
RegisterKind register_kind_of(const machine::Action& action) {
  return static_cast<RegisterKind>(std::get<Send>(action).message.kind);
}

TEST(TableRegister, AsksForATableOnceWhenAllHaveDeclaredItAndAnswersAllWhenItIsThere) {
  TableRegister server(kDeclarers, kKeeper);
  for (const int worker : {2, 0}) {
    EXPECT_THAT(server.on_message(worker, declares(7), {}), SizeIs(0));
    EXPECT_FALSE(server.has_agreed());
    EXPECT_FALSE(server.take_agreed());
  }
  server.on_message(1, declares(7), {});
  ASSERT_TRUE(server.has_agreed());
  const auto agreed = server.take_agreed();
  EXPECT_EQ(std::get<TableSpec>(agreed->spec).elements, 7u);
  EXPECT_EQ(agreed->number, 4u);
  EXPECT_FALSE(server.has_agreed());
  EXPECT_FALSE(server.take_agreed());
  const Actions answers = server.on_message(kKeeper, opens(4), {});
  ASSERT_THAT(answers, SizeIs(kDeclarers));
  EXPECT_EQ(register_kind_of(answers.front()), RegisterKind::open);
  for (int worker = 0; worker < kDeclarers; ++worker) server.on_message(worker, declares(8, 8), {});
  EXPECT_EQ(std::get<TableSpec>(server.take_agreed()->spec).elements, 8u) << "the next one";
}

TEST(TableRegister, WhateverTheOrderInWhichTheyComeBothSidesAreNamedByTheLowestRanks) {
  std::vector<int> order = {0, 1, 2};
  do {
    TableRegister server(kDeclarers, kKeeper);
    Actions refusals;
    for (const int worker : order)
      for (auto& action : server.on_message(worker, declares(worker == 1 ? 9 : 7), {}))
        refusals.push_back(std::move(action));
    ASSERT_THAT(refusals, SizeIs(kDeclarers));
    for (const auto& refusal : refusals) {
      ASSERT_EQ(register_kind_of(refusal), RegisterKind::refused);
      TableDeclarer worker(0, kKeeper, 1);
      worker.expect_answers();
      worker.on_message(kKeeper, std::get<Send>(refusal).message, {});
      EXPECT_TRUE(worker.is_answered());
      EXPECT_THAT(worker.failure()->what, HasSubstr("the elements of table 'w': rank "));
      EXPECT_THAT(worker.failure()->what, HasSubstr("rank 1 has 9"));
    }
    EXPECT_FALSE(server.has_agreed());
  } while (std::ranges::next_permutation(order).found);
}

TEST(TableRegister, AWorkerThatSaysWhatNoWorkerSaysIsDropped) {
  const std::vector<Message> wrong = {
      {.kind = 1, .payload = std::vector<std::byte>(5)}, says(RegisterKind::open), {.kind = 77}};
  for (const Message& message : wrong) {
    TableRegister server(kDeclarers, kKeeper);
    const Actions actions = server.on_message(0, message, {});
    ASSERT_THAT(actions, SizeIs(1));
    EXPECT_EQ(std::get<Drop>(actions.front()).peer, 0);
  }
  TableRegister server(kDeclarers, kKeeper);
  server.on_message(0, declares(7), {});
  EXPECT_TRUE(std::holds_alternative<Drop>(server.on_message(0, declares(7), {}).front()))
      << "it has no answer to its last one";
  EXPECT_THAT(server.on_message(kKeeper + 1, declares(7), {}), SizeIs(0)) << "another server";
}

TEST(TableRegister, IsOverWhenAllWorkersHaveLeft) {
  TableRegister server(kDeclarers, kKeeper);
  server.on_lost(kKeeper + 1, {});
  for (int worker = 0; worker < kDeclarers; ++worker) {
    EXPECT_FALSE(server.all_have_left());
    server.on_lost(worker, {});
  }
  EXPECT_TRUE(server.all_have_left());
}

TEST(TableDeclarer, WaitsForAllServersAndForNoneThatHasEnded) {
  TableDeclarer worker(1, kDeclarers, 2);
  EXPECT_TRUE(worker.is_answered()) << "nothing was asked";
  worker.expect_answers();
  EXPECT_THAT(worker.on_message(1, declares(7), {}), SizeIs(2)) << "one for each server";
  worker.on_message(3, opens(77), {});
  EXPECT_FALSE(worker.is_answered());
  worker.on_lost(0, {});
  EXPECT_FALSE(worker.is_answered()) << "another worker's end is no answer";
  worker.on_message(4, opens(77), {});
  EXPECT_TRUE(worker.is_answered());
  EXPECT_FALSE(worker.failure());
  EXPECT_EQ(worker.number(), 77u);
  worker.expect_answers();
  worker.on_lost(4, {});
  EXPECT_TRUE(worker.is_answered());
  EXPECT_THAT(worker.failure()->what, HasSubstr("server 1 has ended"));
}

// --- servers that come late ---

Message tells(std::uint32_t number, std::size_t elements) {
  const auto spec = encode(TableSpec{.name = "w", .elements = elements});
  return {.kind = static_cast<std::uint32_t>(RegisterKind::table),
          .payload = transport::WireWriter().integer(number).raw(spec).bytes()};
}
std::vector<int> receivers(const Actions& actions, RegisterKind kind) {
  std::vector<int> all;
  for (const auto& action : actions)
    if (register_kind_of(action) == kind) all.push_back(std::get<Send>(action).to);
  return all;
}

constexpr int kLate = 7;

TEST(LateTableRegister, AnswersThoseThatDeclareATableBeforeAndAfterAnotherServerTellsIt) {
  TableRegister late(kDeclarers, kLate);
  EXPECT_THAT(late.on_message(kLate, TableRegister::question(), {}), SizeIs(kLate - kDeclarers));
  EXPECT_THAT(late.on_message(2, declares(7), {}), SizeIs(0)) << "the others do not know it yet";
  late.on_message(kKeeper, tells(4, 7), {});
  late.on_message(kKeeper + 1, tells(4, 7), {});
  const auto told = late.take_opened();
  ASSERT_TRUE(told);
  EXPECT_EQ(told->number, 4u);
  EXPECT_FALSE(late.take_opened()) << "two servers tell of one table";
  EXPECT_EQ(receivers(late.on_message(kLate, opens(4), {}), RegisterKind::open), std::vector{2});
  EXPECT_EQ(receivers(late.on_message(0, declares(7), {}), RegisterKind::open), std::vector{0});
}

TEST(LateTableRegister, OpensATableOnceThatItIsToldAndThatAllWorkersDeclare) {
  for (const bool is_told_first : {false, true}) {
    TableRegister late(kDeclarers, kLate);
    late.on_message(kLate, TableRegister::question(), {});
    if (is_told_first) late.on_message(kKeeper, tells(4, 7), {});
    for (int worker = 0; worker < kDeclarers; ++worker) late.on_message(worker, declares(7), {});
    EXPECT_EQ(late.take_agreed().has_value(), !is_told_first);
    if (!is_told_first) late.on_message(kKeeper, tells(4, 7), {});
    EXPECT_EQ(late.take_opened().has_value(), is_told_first);
    EXPECT_THAT(receivers(late.on_message(kLate, opens(4), {}), RegisterKind::open),
                SizeIs(kDeclarers));
    EXPECT_FALSE(late.has_agreed());
    EXPECT_FALSE(late.has_opened());
  }
}

TEST(LateTableRegister, DoesNotOpenATableThatHasEndedBeforeItCouldBeOpened) {
  TableRegister late(kDeclarers, kLate);
  late.on_message(kLate, TableRegister::question(), {});
  late.on_message(kKeeper, tells(4, 7), {});
  Message closed = opens(4);
  closed.kind = static_cast<std::uint32_t>(RegisterKind::closed);
  late.on_message(kKeeper + 1, closed, {});
  EXPECT_FALSE(late.has_opened());
  EXPECT_FALSE(late.take_opened());
  EXPECT_FALSE(late.take_closed());
}

// The first worker did not know this server when it made the table before.
TEST(LateTableRegister, AWorkerMayBeATableAheadOfAnotherAndMayHaveLeft) {
  TableRegister late(kDeclarers, kLate);
  late.on_message(kLate, TableRegister::question(), {});
  late.on_message(1, declares(7, 4), {});
  EXPECT_THAT(late.on_message(0, declares(9, 8), {}), SizeIs(0));
  EXPECT_THAT(late.on_lost(2, {}), SizeIs(0));
  late.on_message(kKeeper, tells(4, 7), {});
  late.take_opened();
  EXPECT_EQ(receivers(late.on_message(kLate, opens(4), {}), RegisterKind::open), std::vector{1});
  late.on_message(1, declares(9, 8), {});
  late.on_message(2, declares(9, 8), {});
  EXPECT_EQ(late.take_agreed()->number, 8u);
}

TEST(TableDeclarer, DeclaresToServersThatComeWhileItWaitsAlsoWhenAllOthersHaveEnded) {
  const auto chains = [](std::vector<int> servers) {
    return Message{.kind = TableDeclarer::kChains,
                   .payload = encode(std::vector<Chain>{{.generation = 5, .servers = servers}})};
  };
  TableDeclarer worker(1, kDeclarers, 2, true);
  worker.expect_answers();
  worker.on_message(1, declares(7), {});
  worker.on_lost(3, {});
  worker.on_lost(4, {});
  EXPECT_FALSE(worker.is_answered()) << "nobody has the table";
  EXPECT_FALSE(worker.failure());
  EXPECT_EQ(receivers(worker.on_message(1, chains({5, 6}), {}), RegisterKind::declare),
            (std::vector{5, 6}));
  EXPECT_THAT(worker.on_message(1, chains({5, 6}), {}), SizeIs(0)) << "once each";
  worker.on_message(5, opens(4), {});
  EXPECT_FALSE(worker.is_answered());
  worker.on_lost(6, {});
  EXPECT_TRUE(worker.is_answered());
  EXPECT_EQ(worker.number(), 4u);
  worker.expect_answers();
  EXPECT_EQ(receivers(worker.on_message(1, declares(9, 8), {}), RegisterKind::declare),
            std::vector{5});
  EXPECT_THAT(worker.on_message(0, chains({9}), {}), SizeIs(0)) << "another worker's word";
}

}  // namespace
}  // namespace paceline::server
