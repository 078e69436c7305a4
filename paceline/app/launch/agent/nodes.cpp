#include "paceline/app/launch/agent/nodes.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <map>

#include "paceline/core/membership/handshake/handshake.h"
#include "paceline/core/transport/reactor/poller.h"
#include "paceline/core/transport/socket/resolve.h"

namespace paceline::launch {
namespace {

using membership::Hello;

Hello hello_of(const NodeOptions& options) {
  return {.purpose = membership::Purpose::agent,
          .rank = options.node_rank,
          .world_size = options.nodes * options.processes,
          .job = membership::job_fingerprint("nodes/" + options.id),
          .generation = 1};
}

std::vector<int> missing(const NodeOptions& options, const std::map<int, AgentChannel>& come) {
  std::vector<int> ranks;
  for (int rank = 1; rank < options.nodes; ++rank) {
    if (!come.contains(rank)) ranks.push_back(rank);
  }
  return ranks;
}

}  // namespace

std::vector<AgentChannel> await_nodes(const NodeOptions& options) {
  if (!transport::is_own_address(options.endpoint.host)) {
    throw_misuse(
        fmt::format("--rdzv-endpoint: {} is no address of this host; start --node-rank 0 on the "
                    "host that it names",
                    options.endpoint.host));
  }
  transport::Poller poller;
  std::map<int, AgentChannel> come;
  std::optional<Failure> trouble;
  membership::Acceptor acceptor(
      poller, hello_of(options), *options.secret,
      [&](transport::FileDescriptor socket, const Hello& hello) {
        if (hello.purpose != membership::Purpose::agent) return;
        if (hello.world_size != options.nodes * options.processes) {
          trouble =
              Failure{Fault::mismatch,
                      fmt::format("node {} was started for {} ranks in all, node 0 for {}; give "
                                  "the same --nnodes and "
                                  "--nproc-per-node on every node",
                                  hello.rank, hello.world_size, options.nodes * options.processes),
                      {}};
        } else if (hello.rank <= 0 || hello.rank >= options.nodes || come.contains(hello.rank)) {
          trouble = Failure{Fault::mismatch,
                            fmt::format("two launchers call themselves --node-rank {}; each of the "
                                        "{} nodes needs its own, 0 to {}",
                                        hello.rank, options.nodes, options.nodes - 1),
                            {}};
        } else {
          AgentChannel channel{
              .host = fmt::format("node {}", hello.rank), .process = -1, .from = {}, .to = {}};
          channel.to = transport::FileDescriptor(::fcntl(socket.get(), F_DUPFD_CLOEXEC, 3));
          channel.from = std::move(socket);
          come.emplace(hello.rank, std::move(channel));
        }
      });
  auto listener = transport::listen_tcp(options.endpoint);
  if (!listener) throw_misuse("--rdzv-endpoint: " + listener.error().what);
  acceptor.listen(std::move(*listener));
  const Deadline deadline = Deadline::in(options.patience);
  while (!trouble && static_cast<int>(come.size()) < options.nodes - 1) {
    if (deadline.passed()) {
      throw Error({Fault::timed_out,
                   fmt::format("node ranks {} have not come to {}{}; start `paceline run` with the "
                               "same --rdzv-endpoint on each",
                               fmt::join(missing(options, come), ", "),
                               transport::to_string(options.endpoint), acceptor.crowd()),
                   {}});
    }
    poller.wait(deadline);
  }
  if (trouble) throw Error(*trouble);
  std::vector<AgentChannel> nodes;
  for (auto& [rank, channel] : come) nodes.push_back(std::move(channel));
  return nodes;
}

transport::FileDescriptor join_node_0(const NodeOptions& options) {
  const Deadline deadline = Deadline::in(options.patience);
  auto socket = transport::connect_tcp(options.endpoint, deadline).value();
  if (auto hello =
          membership::introduce(socket.get(), hello_of(options), *options.secret, deadline);
      !hello)
    throw Error(hello.error());
  return socket;
}

}  // namespace paceline::launch
