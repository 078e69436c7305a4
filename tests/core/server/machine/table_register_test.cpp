#include "paceline/core/server/machine/table_register.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::server {
namespace {

using machine::Actions;
using machine::Drop;
using machine::Message;
using machine::Send;
using testing::HasSubstr;
using testing::SizeIs;

constexpr int kDeclarers = 3, kKeeper = 3;

Message declares(std::size_t elements) {
  return TableDeclarer::declaration(TableSpec{.name = "w", .elements = elements});
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
  EXPECT_EQ(std::get<TableSpec>(*server.take_agreed()).elements, 7u);
  EXPECT_FALSE(server.has_agreed());
  EXPECT_FALSE(server.take_agreed());
  const Actions answers = server.on_message(kKeeper, says(RegisterKind::open), {});
  ASSERT_THAT(answers, SizeIs(kDeclarers));
  EXPECT_EQ(register_kind_of(answers.front()), RegisterKind::open);
  for (int worker = 0; worker < kDeclarers; ++worker) server.on_message(worker, declares(8), {});
  EXPECT_EQ(std::get<TableSpec>(*server.take_agreed()).elements, 8u) << "the next one";
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
      TableDeclarer worker(kKeeper, 1);
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
  TableDeclarer worker(kDeclarers, 2);
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

}  // namespace
}  // namespace paceline::server
