// The medium under a link between ranks that share memory: two processes with sealed memfds, or two
// threads of one process.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "paceline/core/transport/memory/segment_table.h"
#include "paceline/core/transport/reactor/reactor.h"
#include "paceline/core/transport/socket/file_descriptor.h"

namespace paceline::transport {

// THREAD: reactor's driver only.
class SharedMedium {
 public:
  virtual ~SharedMedium() = default;
  virtual MutableBytes region() = 0;        // where the rings lie
  virtual int side() const = 0;             // 0 or 1
  virtual bool in_one_process() const = 0;  // both ends are
  virtual void ring_bell() = 0;             // wakes the peer's poller
  // One try to give the peer own memory. had: the peer has it. on_its_way: the peer will answer.
  // later: there is no room for it on the way now. refused: the system does not pass it.
  enum class Offering : std::uint8_t { had, on_its_way, later, refused };
  virtual Offering offer(std::uint64_t segment, std::shared_ptr<const SharedMemory> memory) = 0;
  virtual void withdraw(std::uint64_t segment) = 0;  // the peer has withdrawn it
  // The peer's memory, mapped for as long as it is held; nullptr when there is none of this name.
  virtual std::shared_ptr<const SharedMemory> memory(std::uint64_t segment) = 0;
  // Hears of each offer of the peer's, and whether its memory is here.
  using HearOffer = std::function<void(std::uint64_t segment, bool is_here)>;
  // From now on the reactor's poller hears the peer's bell, its offers and its end. `ended` is
  // called when the other process has closed its end, on the driver; by threads never.
  virtual void watch(Reactor& reactor, HearOffer hear, std::function<void()> ended) = 0;
  virtual bool peer_closed() const = 0;
};

// Two processes: `socket` is a connected unix socket (SOCK_SEQPACKET) that has passed the
// handshake. Side 0 makes the region and sends it; side 1 waits for it until the deadline.
Result<std::unique_ptr<SharedMedium>> make_process_medium(FileDescriptor socket, int side,
                                                          std::size_t ring_bytes,
                                                          Deadline deadline);

// Two threads of one process, whose buffers are really shared: both ends at once.
std::pair<std::unique_ptr<SharedMedium>, std::unique_ptr<SharedMedium>> make_thread_mediums(
    std::size_t ring_bytes);

}  // namespace paceline::transport
