#include "paceline/app/launch/agent/nodes.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <thread>
#include <vector>

#include "paceline/core/membership/handshake/handshake.h"
#include "paceline/core/membership/store/told_wait.h"
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

// The nodes that have come, while others are still awaited.
class Gathering {
 public:
  Gathering(const NodeOptions& options, const std::set<int>& wanted, transport::Poller& poller)
      : options_(options), wanted_(wanted), poller_(poller) {}
  ~Gathering() { stop_watching(); }
  Gathering(const Gathering&) = delete;
  Gathering& operator=(const Gathering&) = delete;

  void on_node(transport::FileDescriptor socket, const Hello& hello) {
    if (hello.purpose != membership::Purpose::agent) return;
    const int ranks = options_.nodes * options_.processes;
    if (hello.world_size != ranks) {
      trouble_ = Failure{Fault::mismatch,
                         fmt::format("node {} was started for {} ranks in all, node 0 for {}; give "
                                     "the same --nnodes and --nproc-per-node on every node",
                                     hello.rank, hello.world_size, ranks),
                         {}};
    } else if (!wanted_.contains(hello.rank) || come_.contains(hello.rank)) {
      trouble_ = Failure{Fault::mismatch,
                         fmt::format("two launchers call themselves --node-rank {}; each of the "
                                     "{} nodes needs its own, 0 to {}",
                                     hello.rank, options_.nodes, options_.nodes - 1),
                         {}};
    } else {
      admit(std::move(socket), hello.rank);
    }
  }

  bool is_complete() const { return come_.size() == wanted_.size(); }
  const std::optional<Failure>& trouble() const { return trouble_; }

  std::vector<int> missing() const {
    std::vector<int> ranks;
    for (const int rank : wanted_)
      if (!come_.contains(rank)) ranks.push_back(rank);
    return ranks;
  }

  std::map<int, AgentChannel> take() {
    stop_watching();
    return std::move(come_);
  }

 private:
  void admit(transport::FileDescriptor socket, int rank) {
    AgentChannel& channel = come_[rank];
    channel.host = fmt::format("node {}", rank);
    channel.to = transport::FileDescriptor(::fcntl(socket.get(), F_DUPFD_CLOEXEC, 3));
    channel.from = std::move(socket);
    // It says nothing before it has orders: what can be read now is its end.
    poller_.watch(channel.from.get(), EPOLLIN, [this, rank](std::uint32_t) {
      poller_.forget(come_.at(rank).from.get());
      come_.erase(rank);
      fmt::print(stderr, "paceline: node {} has left before the run began; waiting for it\n", rank);
    });
  }

  void stop_watching() {
    for (const auto& [rank, channel] : come_) poller_.forget(channel.from.get());
  }

  const NodeOptions& options_;
  const std::set<int>& wanted_;
  transport::Poller& poller_;
  std::map<int, AgentChannel> come_;
  std::optional<Failure> trouble_;
};

double seconds(Clock::duration time) {
  return std::chrono::duration<double>(time).count();
}

void tell_missing(double waited, const std::vector<int>& nodes, const NodeOptions& options) {
  membership::tell_start(
      waited,
      fmt::format("node 0 waits at {} for node ranks {}: start `paceline run --node-rank R` "
                  "on each, with the same --rdzv-endpoint, and a firewall must let it in; "
                  "the run fails after {:.4g} s (--start-timeout)",
                  transport::to_string(options.endpoint), fmt::join(nodes, ", "),
                  seconds(options.patience)));
}

std::string waits_for_node_0(const NodeOptions& options) {
  return fmt::format(
      "node {} waits for node 0 at {} (is `paceline run --node-rank 0` started "
      "there, and can that address be reached from here?)",
      options.node_rank, transport::to_string(options.endpoint));
}

// Whether only the host's name can be what is wrong with it.
bool has_a_port(const std::string& text) {
  const auto colon = text.rfind(':');
  return colon != std::string::npos && colon > 0 &&
         transport::parse_tcp_address("127.0.0.1" + text.substr(colon)).has_value();
}

}  // namespace

transport::TcpAddress find_endpoint(const std::string& text, Deadline deadline,
                                    const Resolver& resolve) {
  constexpr std::chrono::milliseconds kPause{200};
  auto found = resolve(text);
  if (!found && has_a_port(text) && !deadline.passed()) {
    const auto left = std::chrono::ceil<std::chrono::seconds>(deadline.left());
    fmt::print(stderr, "paceline: {}; asking again for {} s\n", found.error().what, left.count());
    while (!found && !deadline.passed()) {
      std::this_thread::sleep_for(std::min<Clock::duration>(kPause, deadline.left()));
      found = resolve(text);
    }
  }
  if (!found) throw_misuse(fmt::format("--rdzv-endpoint: {}", found.error().what));
  return found.value();
}

std::map<int, AgentChannel> await_nodes(const NodeOptions& options, const std::set<int>& wanted,
                                        transport::Poller& poller,
                                        const std::function<bool()>& is_given_up, Deadline ask_at) {
  if (!transport::is_own_address(options.endpoint.host)) {
    throw_misuse(
        fmt::format("--rdzv-endpoint: {} is no address of this host; start --node-rank 0 on the "
                    "host that it names",
                    options.endpoint.host));
  }
  Gathering gathering(options, wanted, poller);
  membership::Acceptor acceptor(poller, hello_of(options), *options.secret,
                                [&](transport::FileDescriptor socket, const Hello& hello) {
                                  gathering.on_node(std::move(socket), hello);
                                });
  auto listener = transport::listen_tcp(options.endpoint);
  if (!listener) throw_misuse("--rdzv-endpoint: " + listener.error().what);
  acceptor.listen(std::move(*listener));
  const Deadline deadline = Deadline::in(options.patience);
  membership::Tellings tellings(options.stall);
  while (!gathering.trouble() && !gathering.is_complete()) {
    if (is_given_up()) return {};
    if (tellings.is_due()) tell_missing(tellings.seconds(), gathering.missing(), options);
    if (deadline.passed()) {
      throw Error(
          {Fault::timed_out,
           fmt::format("node ranks {} have not come to {} within {:.4g} s "
                       "(--start-timeout){}; start `paceline run` with the same "
                       "--rdzv-endpoint on each",
                       fmt::join(gathering.missing(), ", "), transport::to_string(options.endpoint),
                       seconds(options.patience), acceptor.crowd()),
           {}});
    }
    poller.wait(deadline.sooner(tellings.next()).sooner(ask_at));
  }
  if (gathering.trouble()) throw Error(*gathering.trouble());
  return gathering.take();
}

transport::FileDescriptor join_node_0(const NodeOptions& options, Deadline deadline) {
  deadline = deadline.sooner(Deadline::in(options.patience));
  const membership::ToldWait told(options.stall, [&options] { return waits_for_node_0(options); });
  auto socket = transport::connect_tcp(options.endpoint, deadline);
  if (!socket)
    throw Error({socket.error().fault,
                 fmt::format("{} within {:.4g} s (--start-timeout): {}", waits_for_node_0(options),
                             seconds(options.patience), socket.error().what),
                 {}});
  if (auto hello =
          membership::introduce(socket->get(), hello_of(options), *options.secret, deadline);
      !hello)
    throw Error(hello.error());
  return std::move(*socket);
}

}  // namespace paceline::launch
