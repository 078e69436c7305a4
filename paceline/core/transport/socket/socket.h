// Sockets with errors that say what to do: TCP, and unix sockets with abstract names (nothing in
// the file system).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "paceline/core/base/deadline.h"
#include "paceline/core/base/result.h"
#include "paceline/core/transport/socket/byte_channel.h"
#include "paceline/core/transport/socket/file_descriptor.h"

namespace paceline::transport {

struct TcpAddress {
  std::string host;  // numeric
  int port = 0;
  bool operator==(const TcpAddress&) const = default;
};

std::string to_string(const TcpAddress& address);  // "127.0.0.1:4000", "[::1]:4000"
Result<TcpAddress> parse_tcp_address(const std::string& text);
bool is_loopback(const TcpAddress& address);

// The ports that listening sockets take; 0 to 0: those that the system gives.
struct PortRange {
  int first = 0, last = 0;
  bool operator==(const PortRange&) const = default;
};
std::optional<PortRange> parse_port_range(const std::string& text);  // "20000:20100"

// Listening sockets do not block; port 0 takes any free one of the range.
Result<FileDescriptor> listen_tcp(const TcpAddress& address, PortRange ports = {});
Result<FileDescriptor> listen_unix(const std::string& abstract_name);
Result<TcpAddress> local_address(int fd);
Result<TcpAddress> peer_address(int fd);  // of a unix socket: an empty host

// Bytes that were sent and have not reached the peer's host. When a connection with such is closed
// and the peer sends once more, they are lost.
std::size_t bytes_on_the_way(int fd);

// How long the peer's host has not answered, while bytes are to go to it, as when the network
// between is cut; zero: it answers, or has nothing to answer.
std::chrono::milliseconds unanswered_for(int fd);

// Connected sockets do not block either; connecting waits, and tries again while nobody listens
// yet, until the deadline (timed_out); other failures (io) come at once.
Result<FileDescriptor> connect_tcp(const TcpAddress& address, Deadline deadline);
Result<FileDescriptor> connect_unix(const std::string& abstract_name, Deadline deadline);

// The next connection; a closed descriptor when none waits. Unix peers of another user are dropped.
Result<FileDescriptor> accept(int listener);

// Waits until `fd` is ready for `events` (POLLIN, POLLOUT). False when the deadline passed first.
bool wait_for(int fd, short events, Deadline deadline);

// Whole messages with a deadline, for handshakes.
Result<> send_all(int fd, Bytes bytes, Deadline deadline);
Result<> receive_all(int fd, MutableBytes into, Deadline deadline);

// One message on a unix SOCK_SEQPACKET socket, with an optional file descriptor beside it.
// timed_out: there is no room now, for the message or for one more descriptor on its way.
Result<> send_record(int fd, Bytes record, int attached = -1);
struct Record {
  std::vector<std::byte> bytes;
  FileDescriptor attached;
};
// When nothing has come, the record has no bytes. When the peer has closed, it fails (peer_lost). A
// descriptor is lost where this process has none free for it.
Result<Record> receive_record(int fd);

class SocketChannel final : public ByteChannel {
 public:
  explicit SocketChannel(int fd) : fd_(fd) {}  // does not own it
  Result<std::size_t> read(MutableBytes into) override;
  Result<std::size_t> write(std::span<const Bytes> pieces) override;

 private:
  int fd_;
};

}  // namespace paceline::transport
