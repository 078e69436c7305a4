// The mutual handshake of two processes of one job: each proves that it knows the secret, and who
// it is.
//
// Three messages (docs/wire.md): the initiator's hello; the responder's hello with an HMAC-SHA256
// over both hellos; the initiator's HMAC over both under its own role. Fresh nonces of both sides
// are in the hellos, so nothing can be replayed or reflected. It authenticates the two ends, not
// what they say later: without TLS an active attacker on the network can take over the stream.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "paceline/core/membership/handshake/secret.h"
#include "paceline/core/transport/reactor/poller.h"

namespace paceline::membership {

// Decides which connection is closed when more connections wait for their handshake than there are
// places.
//
// A place is a file descriptor and a buffer that anyone on the network can have for the asking.
// Each address has a share, so that an address that opens too many connections displaces only its
// own; without a place for the newcomer the fullest address gives one. Within an address the oldest
// goes first.
class PendingConnections {
 public:
  struct PendingConnection {
    int connection;
    std::string address;
    bool operator==(const PendingConnection&) const = default;
  };
  // At most `places` in all, and `share` of one address; both at least 1.
  PendingConnections(std::size_t places, std::size_t share) : places_(places), share_(share) {}

  // Returns which connection has to go for the newcomer, if any; never the newcomer itself.
  std::optional<PendingConnection> enter(PendingConnection newcomer);
  void leave(int connection);  // not for one that had to go: it has left already
  std::size_t size() const { return guests_.size(); }

 private:
  PendingConnection take(std::vector<PendingConnection>::iterator guest);

  const std::size_t places_, share_;
  std::vector<PendingConnection> guests_;  // in the order of arrival
  std::map<std::string, std::size_t> of_address_;
};

enum class Purpose : std::uint8_t { store = 1, peer, agent };  // agent: another node's launcher

constexpr int kStoreRank = -1;

// Each side says who it is, and whom it wants to speak to.
struct Hello {
  Purpose purpose = Purpose::peer;
  std::int32_t rank = 0;
  std::int32_t target = 0;  // the rank that the initiator wants; kStoreRank for the store
  std::int32_t world_size = 0;
  std::uint64_t job = 0;
  std::uint64_t generation = 0;
  bool operator==(const Hello&) const = default;
};

// The fingerprint of a job's id, as it stands in hellos and frames.
std::uint64_t job_fingerprint(const std::string& job);

// The initiator's side; waits for the answer. Returns the responder's hello. The failure is
// `refused` when the other side does not know the secret or does not accept ours, `mismatch` when
// it speaks another version, which both ends are told.
Result<Hello> introduce(int fd, const Hello& own, const Secret& secret, Deadline deadline);

// The responder's side for any number of connections: accepts, checks and hands over those that
// pass. It keeps 256 unfinished handshakes at a time, 32 from one address, and both limits grow by
// one for each rank of the job, so that ranks that come all at once have room; each has 5 s. A
// connection that fails is closed without an answer, but for one of another version; a newcomer
// beyond the limits closes the oldest one of the address that has the most, and a line on stderr
// says so now and then.
class Acceptor {
 public:
  using Accepted = std::function<void(transport::FileDescriptor socket, const Hello& initiator)>;
  // `own`: what we say of ourselves (target and purpose are taken from the initiator).
  Acceptor(transport::Poller& poller, const Hello& own, const Secret& secret, Accepted accepted,
           Clock::duration limit = std::chrono::seconds(5));
  ~Acceptor();
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  // Why the last connection could not be accepted (no descriptors left); it is tried again. Nothing
  // after one that could.
  const std::optional<Failure>& trouble() const { return trouble_; }

  // Whom newcomers crowded out, for the end of a message about those that have not come:
  // "; unauthenticated connections closed to make room: 12, the last from 10.0.0.7"; empty when
  // there was room for all.
  std::string crowd() const;

  void listen(transport::FileDescriptor listener);  // may be called for several
  // Hands over all listeners; connections that wait there are not lost.
  std::vector<transport::FileDescriptor> take_listeners();

 private:
  struct Pending;
  void on_connection(int listener);
  void on_readable(int fd);
  void object_to(int fd, const Failure& version);
  std::string place() const;  // "rank 3"; for texts
  void drop(int fd);
  void crowd_out(const PendingConnections::PendingConnection& guest);
  void tell_crowd();
  void pause();

  transport::Poller& poller_;
  const Hello own_;
  const Secret secret_;
  const Accepted accepted_;
  const Clock::duration limit_;
  std::map<int, transport::FileDescriptor> listeners_;
  std::map<int, Pending> pending_;
  PendingConnections room_;  // who is in pending_
  std::size_t crowded_out_ = 0, told_ = 0;
  std::string last_crowded_out_;
  bool objected_ = false;
  Deadline tell_again_ = Deadline::in(Clock::duration::zero());
  std::optional<Failure> trouble_;
  std::optional<transport::Poller::TimerId> pause_;
};

}  // namespace paceline::membership
