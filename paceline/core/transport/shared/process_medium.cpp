#include <poll.h>
#include <sys/epoll.h>

#include <map>
#include <thread>

#include "paceline/core/transport/frame/wire.h"
#include "paceline/core/transport/shared/ring.h"
#include "paceline/core/transport/shared/shared_medium.h"
#include "paceline/core/transport/socket/socket.h"

namespace paceline::transport {
namespace {

// Records on the unix socket: {u32 kind, u64 segment, u64 bytes}, an offer with the segment's
// descriptor beside it.
enum class RecordKind : std::uint32_t { bell = 1, region, offer };

constexpr std::chrono::seconds kRoomForRegion{5};

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

  Offering offer(std::uint64_t segment, std::shared_ptr<const SharedMemory> memory) override {
    const auto offered = record(RecordKind::offer, segment, memory->bytes().size());
    const auto sent = send_record(socket_.get(), offered, memory->fd());
    if (sent) return Offering::on_its_way;
    switch (sent.error().fault) {
      case Fault::timed_out: return Offering::later;
      case Fault::peer_lost: return Offering::on_its_way;  // the watch tells of its end
      default: return Offering::refused;
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

  void watch(Reactor& reactor, HearOffer hear, std::function<void()> ended) override {
    reactor_ = &reactor;
    hear_ = std::move(hear);
    ended_ = std::move(ended);
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
        if (ended_) ended_();
        return;
      }
      if (next->bytes.empty()) return;
      WireReader reader(next->bytes);
      const auto kind = reader.integer<RecordKind>();
      const auto segment = reader.integer<std::uint64_t>();
      const auto bytes = reader.integer<std::uint64_t>();
      if (!reader.ok_and_empty() || kind != RecordKind::offer) continue;
      // Without a descriptor where this process has none free.
      auto memory = SharedMemory::attach(std::move(next->attached), bytes);
      if (memory) {
        peers_segments_.insert_or_assign(segment,
                                         std::make_shared<const SharedMemory>(std::move(*memory)));
      }
      if (hear_) hear_(segment, memory.has_value());
    }
  }

  FileDescriptor socket_;
  SharedMemory region_;
  const int side_;
  std::map<std::uint64_t, std::shared_ptr<const SharedMemory>> peers_segments_;
  Reactor* reactor_ = nullptr;
  HearOffer hear_;
  std::function<void()> ended_;
  bool closed_ = false;
};

// The system may have no room for another descriptor on its way until other ranks have taken
// theirs.
Result<> send_region(int socket, const SharedMemory& region, Deadline deadline) {
  const auto hello = record(RecordKind::region, 0, region.bytes().size());
  for (;;) {
    auto sent = send_record(socket, hello, region.fd());
    if (sent || sent.error().fault != Fault::timed_out || deadline.passed()) return sent;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace

Result<std::unique_ptr<SharedMedium>> make_process_medium(FileDescriptor socket, int side,
                                                          std::size_t ring_bytes,
                                                          Deadline deadline) {
  if (side == 0) {
    auto region = SharedMemory::create(ring_region_bytes(ring_bytes));
    if (!region) return region.error();
    const Deadline soon = deadline.sooner(Deadline::in(kRoomForRegion));
    if (auto sent = send_region(socket.get(), *region, soon); !sent) return sent.error();
    region->close_descriptor();
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
  if (!first->attached.is_open()) {
    return Failure{
        Fault::io,
        "a peer's shared memory came without its descriptor: this process has none free; "
        "raise the limit of open files (`ulimit -n`), or run with PACELINE_TRANSPORT=tcp",
        {}};
  }
  auto region = SharedMemory::attach(std::move(first->attached), bytes);
  if (!region) return region.error();
  return std::unique_ptr<SharedMedium>(
      new ProcessMedium(std::move(socket), std::move(*region), side));
}

}  // namespace paceline::transport
