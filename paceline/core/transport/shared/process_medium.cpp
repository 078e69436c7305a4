#include <poll.h>
#include <sys/epoll.h>

#include <map>

#include "paceline/core/transport/frame/wire.h"
#include "paceline/core/transport/shared/ring.h"
#include "paceline/core/transport/shared/shared_medium.h"
#include "paceline/core/transport/socket/socket.h"

namespace paceline::transport {
namespace {

// Records on the unix socket: {u32 kind, u64 segment, u64 bytes}, an offer with the segment's
// descriptor beside it.
enum class RecordKind : std::uint32_t { bell = 1, region, offer };

std::vector<std::byte> record(RecordKind kind, std::uint64_t segment, std::uint64_t bytes) {
  return WireWriter().integer(kind).integer(segment).integer(bytes).bytes();
}

class ProcessMedium final : public SharedMedium {
 public:
  ProcessMedium(FileDescriptor socket, SharedMemory region, int side)
      : socket_(std::move(socket)), region_(std::move(region)), side_(side) {}

  ~ProcessMedium() override { stop_watching(); }

  MutableBytes region() override { return region_.bytes(); }
  int side() const override { return side_; }
  bool in_one_process() const override { return false; }

  void ring_bell() override {
    static const auto kBell = record(RecordKind::bell, 0, 0);
    (void)send_record(socket_.get(),
                      kBell);  // full: bells enough wait there already; closed: the watch tells
  }

  void offer(std::uint64_t segment, std::shared_ptr<const SharedMemory> memory) override {
    const auto offered = record(RecordKind::offer, segment, memory->bytes().size());
    const Deadline deadline = Deadline::in(std::chrono::seconds(5));
    for (;;) {
      const auto sent = send_record(socket_.get(), offered, memory->fd());
      if (sent || sent.error().fault != Fault::timed_out) return;
      if (!wait_for(socket_.get(), POLLOUT, deadline))
        return;  // without it the peer gets payloads instead of references
    }
  }

  void withdraw(std::uint64_t segment) override {
    read_records();  // its offer may still wait there
    peers_segments_.erase(segment);
  }

  std::shared_ptr<const SharedMemory> memory(std::uint64_t segment) override {
    auto found = peers_segments_.find(segment);
    if (found == peers_segments_.end()) {
      read_records();  // its offer was sent before what speaks of it, but on the socket
      found = peers_segments_.find(segment);
    }
    return found == peers_segments_.end() ? nullptr : found->second;
  }

  void watch(Reactor& reactor) override {
    reactor_ = &reactor;
    reactor.poller().watch(socket_.get(), EPOLLIN, [this](std::uint32_t) {
      read_records();
      if (closed_) stop_watching();
    });
  }

  bool peer_closed() const override { return closed_; }

 private:
  void stop_watching() {
    if (reactor_ != nullptr) reactor_->poller().forget(socket_.get());
    reactor_ = nullptr;
  }

  void read_records() {
    while (!closed_) {
      auto next = receive_record(socket_.get());
      if (!next) {
        closed_ = true;
        return;
      }
      if (next->bytes.empty()) return;
      WireReader reader(next->bytes);
      const auto kind = reader.integer<RecordKind>();
      const auto segment = reader.integer<std::uint64_t>();
      const auto bytes = reader.integer<std::uint64_t>();
      if (!reader.ok_and_empty() || kind != RecordKind::offer || !next->attached.is_open())
        continue;
      if (auto memory = SharedMemory::attach(std::move(next->attached), bytes)) {
        peers_segments_.insert_or_assign(segment,
                                         std::make_shared<const SharedMemory>(std::move(*memory)));
      }
    }
  }

  FileDescriptor socket_;
  SharedMemory region_;
  const int side_;
  std::map<std::uint64_t, std::shared_ptr<const SharedMemory>> peers_segments_;
  Reactor* reactor_ = nullptr;
  bool closed_ = false;
};

}  // namespace

Result<std::unique_ptr<SharedMedium>> make_process_medium(FileDescriptor socket, int side,
                                                          std::size_t ring_bytes,
                                                          Deadline deadline) {
  if (side == 0) {
    auto region = SharedMemory::create(ring_region_bytes(ring_bytes));
    if (!region) return region.error();
    const auto hello = record(RecordKind::region, 0, region->bytes().size());
    if (auto sent = send_record(socket.get(), hello, region->fd()); !sent) return sent.error();
    return std::unique_ptr<SharedMedium>(
        new ProcessMedium(std::move(socket), std::move(*region), side));
  }
  if (!wait_for(socket.get(), POLLIN, deadline)) {
    return Failure{Fault::timed_out, "a peer did not send its shared memory", {}};
  }
  auto first = receive_record(socket.get());
  if (!first) return first.error();
  WireReader reader(first->bytes);
  const auto kind = reader.integer<RecordKind>();
  reader.integer<std::uint64_t>();
  const auto bytes = reader.integer<std::uint64_t>();
  if (!reader.ok_and_empty() || kind != RecordKind::region || bytes < ring_region_bytes(4096)) {
    return Failure{Fault::io, "a peer's first record is not its shared memory", {}};
  }
  auto region = SharedMemory::attach(std::move(first->attached), bytes);
  if (!region) return region.error();
  return std::unique_ptr<SharedMedium>(
      new ProcessMedium(std::move(socket), std::move(*region), side));
}

}  // namespace paceline::transport
