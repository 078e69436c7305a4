#include "paceline/app/launch/agent/agent_wire.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "tests/support/seed.h"

namespace paceline::launch {
namespace {

using Kind = AgentMessage::Kind;
using ::testing::HasSubstr;

TEST(AgentWire, MessagesComeOutAsTheyWentInHoweverTheStreamIsCut) {
  const std::vector<AgentMessage> sent = {
      {Kind::orders, -1, 0, "{}"},    {Kind::output, 3, 0, std::string(100'000, 'x')},
      {Kind::ended, 2, 12345, "256"}, {Kind::output, 1, 0, std::string("\0\n\xff", 3)},
      {Kind::done, -1, -7, ""},       {Kind::drained, -1, 0, ""},
      {Kind::credit, -1, 7, ""},      {Kind::start, 9, 3, ""}};
  std::string stream;
  for (const auto& message : sent) append(message, stream);
  std::mt19937 random(static_cast<unsigned>(test::seed(7)));
  for (int round = 0; round < 20; ++round) {
    AgentReader reader;
    std::vector<AgentMessage> got;
    for (std::size_t at = 0; at < stream.size();) {
      const std::size_t piece =
          std::min<std::size_t>(1 + random() % (round == 0 ? 1 : 50'000), stream.size() - at);
      reader.feed(std::string_view(stream).substr(at, piece));
      at += piece;
      while (const auto next = reader.next().value()) got.push_back(*next);
    }
    EXPECT_EQ(got, sent);
  }
}

TEST(AgentWire, WhatIsNoMessageIsShown) {
  for (const std::string& strange :
       {std::string("Welcome to node7!\n"), std::string("\1\0\0\0\1", 5),
        std::string("\377\377\377\377", 4),
        std::string("\15\0\0\0\143\0\0\0\0\0\0\0\0\0\0\0\0", 17)}) {
    AgentReader reader;
    reader.feed(strange);
    const auto next = reader.next();
    ASSERT_FALSE(next) << strange;
    EXPECT_EQ(next.error().fault, Fault::io);
  }
  AgentReader reader;
  reader.feed("Welcome to node7!\n");
  EXPECT_THAT(reader.next().error().what, HasSubstr("Welcome to node7!"));
}

TEST(AgentOrders, ComeOutAsTheyWentIn) {
  const AgentOrders orders{.first = 2,
                           .count = 3,
                           .node_rank = 1,
                           .nodes = 4,
                           .job = {.world_size = 9,
                                   .job = "j",
                                   .store = "10.0.0.1:5",
                                   .transport = "tcp",
                                   .device_transport = "staged",
                                   .devices = {"1", "GPU-a"},
                                   .ranks_per_device = 2,
                                   .determinism = "fast",
                                   .operation_timeout = "9s",
                                   .master_address = "a",
                                   .master_port = 7,
                                   .usable_cores = 3},
                           .secret = "ab",
                           .directory = "/a b",
                           .command = {"x", "\"y\"", "\xff"},
                           .environment = {"A=b=c"}};
  auto same = orders;
  same.command[2] = "\xef\xbf\xbd";  // text that is not UTF-8 cannot be sent
  EXPECT_EQ(parse_orders(to_json(orders)).value(), same);
  EXPECT_EQ(parse_orders("{}").error().fault, Fault::mismatch);
  EXPECT_EQ(parse_orders("no").error().fault, Fault::mismatch);
}

TEST(AgentOrders, OfAnotherVersionAreRefusedAndBothVersionsNamed) {
  AgentOrders orders;
  orders.version = "0.1.0 (wire 1)";
  const auto refused = parse_orders(to_json(orders));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().fault, Fault::mismatch);
  for (const std::string& part : {std::string("the launcher's has 0.1.0 (wire 1)"), this_version()})
    EXPECT_THAT(refused.error().what, HasSubstr(part));
}

}  // namespace
}  // namespace paceline::launch
