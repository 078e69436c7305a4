#include "paceline/core/job/late_members.h"

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <utility>

#include "paceline/core/membership/environment/variables.h"
#include "paceline/core/transport/socket/socket.h"

namespace paceline::job {
namespace {

using membership::Hello;
using transport::FileDescriptor;

constexpr std::array kIn = {std::byte{1}};  // over TCP: the link is there
constexpr std::chrono::milliseconds kBetweenEnds{100};

bool is_unix(int socket) {
  int domain = 0;
  socklen_t length = sizeof domain;
  return ::getsockopt(socket, SOL_SOCKET, SO_DOMAIN, &domain, &length) == 0 && domain == AF_UNIX;
}

bool leaves_host(int socket) {
  const auto here = transport::local_address(socket), there = transport::peer_address(socket);
  return !here || !there || here.value().host != there.value().host;
}

Failure turned_away() {
  return {Fault::peer_lost, "it closed the connection before its link was there", {}};
}

}  // namespace

LateMembers::LateMembers(Job::Impl& job, const Hello& own, std::vector<FileDescriptor> listeners,
                         std::size_t ring_bytes)
    : job_(job),
      founders_(own.world_size),
      ring_bytes_(ring_bytes),
      acceptor_(job.reactor->poller(), own, *job.environment.secret,
                [this](FileDescriptor socket, const Hello& hello) {
                  accepted(std::move(socket), hello);
                }) {
  for (FileDescriptor& listener : listeners) acceptor_.listen(std::move(listener));
}

bool LateMembers::may_come(const Hello& hello) const {
  membership::Generation& generation = *job_.generation;
  return hello.purpose == membership::Purpose::peer && hello.rank >= founders_ &&
         hello.rank < founders_ + membership::kMostRanks &&
         hello.rank != generation.identity().rank && generation.link(hello.rank) == nullptr &&
         !generation.is_failing();
}

// A newcomer that is turned away finds the connection closed. It hears that it is in while nothing
// else runs here: all that it causes, such as the launcher's next map, comes when the link is there.
void LateMembers::accepted(FileDescriptor socket, const Hello& hello) {
  if (!may_come(hello)) return;
  membership::Generation& generation = *job_.generation;
  const auto identity = generation.stream_identity(hello.rank);
  const Deadline now = Deadline::in(Clock::duration::zero());
  if (is_unix(socket.get())) {
    auto medium = transport::make_process_medium(std::move(socket), 0, ring_bytes_, now);
    if (!medium) return;
    generation.attach_late(
        hello.rank, transport::make_shared_link(std::move(*medium), identity, generation.segments(),
                                                generation.link_owner(), *job_.reactor));
    return;
  }
  if (!transport::send_all(socket.get(), kIn, now)) return;
  const bool leaves = leaves_host(socket.get());
  generation.attach_late(hello.rank,
                         transport::make_tcp_link(std::move(socket), identity, leaves,
                                                  generation.link_owner(), *job_.reactor));
}

Result<std::unique_ptr<transport::SharedMedium>> await_admission(
    FileDescriptor& socket, bool memory, Deadline deadline,
    const std::function<void()>& heed_ends) {
  while (!transport::wait_for(socket.get(), POLLIN, deadline.sooner(Deadline::in(kBetweenEnds)))) {
    heed_ends();
    if (deadline.passed()) return Failure{Fault::timed_out, "it does not let this server in", {}};
  }
  constexpr std::size_t kPeerChooses = 0;  // it makes the rings
  if (memory) return transport::make_process_medium(std::move(socket), 1, kPeerChooses, deadline);
  std::array<std::byte, 1> word = {};
  if (!transport::receive_all(socket.get(), word, deadline) || word != kIn) return turned_away();
  return std::unique_ptr<transport::SharedMedium>();
}

}  // namespace paceline::job
