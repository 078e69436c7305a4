#include "paceline/app/launch/agent/nodes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <optional>
#include <thread>

#include "paceline/app/launch/hosts/hosts.h"

namespace paceline::launch {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

NodeOptions node(int rank, int nodes, int port) {
  NodeOptions options;
  options.nodes = nodes;
  options.node_rank = rank;
  options.processes = 2;
  options.endpoint = {"127.0.0.1", port};
  options.secret = membership::Secret(membership::Secret::Key{});
  options.patience = 5s;
  return options;
}

std::map<int, AgentChannel> all_of(const NodeOptions& first) {
  transport::Poller poller;
  std::set<int> others;
  for (int rank = 1; rank < first.nodes; ++rank) others.insert(rank);
  return await_nodes(
      first, others, poller, [] { return false; }, Deadline::never());
}

// The failure that await_nodes throws while `others` come.
std::optional<Failure> failure_of(const NodeOptions& first,
                                  const std::vector<NodeOptions>& others) {
  std::vector<transport::FileDescriptor> sockets(others.size());  // a node that leaves is awaited
  std::vector<std::jthread> threads;
  for (std::size_t i = 0; i < others.size(); ++i) {
    threads.emplace_back([&socket = sockets[i], &other = others[i]] {
      try {
        socket = join_node_0(other);
      } catch (const Error&) {  // node 0 has gone
      }
    });
  }
  try {
    all_of(first);
  } catch (const Error& error) {
    return error.failure();
  }
  return std::nullopt;
}

TEST(Endpoint, IsAskedForAgainUntilItsNameIsKnown) {
  int asked = 0;
  const auto later = [&](const std::string& text) -> Result<transport::TcpAddress> {
    if (++asked < 3) return Failure{Fault::misuse, text + " is not known", {}};
    return transport::TcpAddress{"10.0.0.7", 29400};
  };
  EXPECT_EQ(find_endpoint("pod-0.run:29400", Deadline::in(10s), later).host, "10.0.0.7");
  EXPECT_EQ(asked, 3);
}

TEST(Endpoint, IsRefusedAtItsDeadlineAndAtOnceWhenItIsNoAddress) {
  int asked = 0;
  const auto never = [&](const std::string&) -> Result<transport::TcpAddress> {
    ++asked;
    return Failure{Fault::misuse, "not known", {}};
  };
  EXPECT_THROW(find_endpoint("a:1", Deadline::in(1ms), never), Error);
  EXPECT_GE(asked, 1);
  for (const char* wrong : {"a", "a:", ":1", "a:70000", "a:x"}) {
    asked = 0;
    EXPECT_THROW(find_endpoint(wrong, Deadline::in(1h), never), Error) << wrong;
    EXPECT_EQ(asked, 1) << wrong;
  }
}

TEST(Nodes, ComeInAnyOrderAndAreHandedOverInTheirs) {
  const int port = free_port();
  transport::FileDescriptor one, two;
  std::jthread late([&] { one = join_node_0(node(1, 3, port)); }),
      early([&] { two = join_node_0(node(2, 3, port)); });
  const auto channels = all_of(node(0, 3, port));
  ASSERT_EQ(channels.size(), 2U);
  EXPECT_EQ(channels.at(1).host, "node 1");
  EXPECT_EQ(channels.at(2).host, "node 2");
}

TEST(Nodes, OneThatLeavesBeforeTheOthersHaveComeMayComeAgain) {
  const int port = free_port();
  transport::FileDescriptor again, two;
  std::jthread nodes([&] {
    { const auto first = join_node_0(node(1, 3, port)); }
    again = join_node_0(node(1, 3, port));
    two = join_node_0(node(2, 3, port));
  });
  const auto channels = all_of(node(0, 3, port));
  nodes.join();
  ASSERT_EQ(channels.size(), 2U);
  // Its socket is that of the second time: what is written there arrives.
  ASSERT_EQ(::write(again.get(), "x", 1), 1);
  char got = 0;
  EXPECT_EQ(::read(channels.at(1).from.get(), &got, 1), 1);
  EXPECT_EQ(got, 'x');
}

TEST(Nodes, ThatDoNotComeAreNamed) {
  auto impatient = node(0, 4, free_port());
  impatient.patience = 2s;
  const auto failure = failure_of(impatient, {node(2, 4, impatient.endpoint.port)});
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->fault, Fault::timed_out);
  EXPECT_THAT(failure->what, HasSubstr("node ranks 1, 3 have not come"));
}

TEST(Nodes, ThatDisagreeAreNamed) {
  const int port = free_port();
  auto other = node(1, 2, port);
  other.processes = 3;
  EXPECT_THAT(failure_of(node(0, 2, port), {other})->what,
              HasSubstr("node 1 was started for 6 ranks in all, node 0 for 4"));
  const int again = free_port();
  EXPECT_THAT(failure_of(node(0, 3, again), {node(1, 3, again), node(1, 3, again)})->what,
              HasSubstr("call themselves --node-rank 1"));
}

TEST(Nodes, OfAnotherJobOrWithAnotherSecretDoNotBelong) {
  const int port = free_port();
  auto impatient = node(0, 2, port);
  impatient.patience = 300ms;
  auto stranger = node(1, 2, port), other = node(1, 2, port);
  stranger.secret = membership::Secret::random();
  other.id = "other";
  EXPECT_EQ(failure_of(impatient, {stranger, other})->fault, Fault::timed_out);
}

TEST(Nodes, TheEndpointMustBeThisHosts) {
  auto away = node(0, 2, 1);
  away.endpoint.host = "192.0.2.77";
  EXPECT_THAT(failure_of(away, {})->what, HasSubstr("192.0.2.77 is no address of this host"));
}

}  // namespace
}  // namespace paceline::launch
