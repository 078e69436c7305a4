#include "paceline/app/launch/agent/nodes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <thread>

#include "paceline/app/launch/hosts/host.h"

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

// The failure that await_nodes throws while `others` come.
std::optional<Failure> failure_of(const NodeOptions& first,
                                  const std::vector<NodeOptions>& others) {
  std::vector<std::jthread> threads;
  for (const NodeOptions& other : others) {
    threads.emplace_back([other] {
      try {
        join_node_0(other);
      } catch (const Error&) {  // node 0 has gone
      }
    });
  }
  try {
    await_nodes(first);
  } catch (const Error& error) {
    return error.failure();
  }
  return std::nullopt;
}

TEST(Nodes, ComeInAnyOrderAndAreHandedOverInTheirs) {
  const int port = free_port();
  transport::FileDescriptor one, two;
  std::jthread late([&] { one = join_node_0(node(1, 3, port)); }),
      early([&] { two = join_node_0(node(2, 3, port)); });
  const auto channels = await_nodes(node(0, 3, port));
  ASSERT_EQ(channels.size(), 2U);
  EXPECT_EQ(channels[0].host, "node 1");
  EXPECT_EQ(channels[1].host, "node 2");
}

TEST(Nodes, ThatDoNotComeAreNamed) {
  auto impatient = node(0, 4, free_port());
  impatient.patience = 300ms;
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
