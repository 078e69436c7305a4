#include "paceline/core/transport/link/tcp_link.h"

#include <sys/epoll.h>

#include <algorithm>

#include "paceline/core/transport/socket/socket.h"

namespace paceline::transport {
namespace {

// Bytes of one turn in one direction, or a little more: reading and writing take turns, so that
// neither of two peers fills the other's socket and then waits.
constexpr std::size_t kTurn = 256 << 10;

// A link looks at its socket itself so often after something moved, each time by a short system
// call, before it leaves that to the poller, whose look takes longer but is one for all links.
constexpr int kLooks = 64;

// The reactor looks only after links that are busy: they have something to send, or something moved
// lately.
class TcpLink final : public Link, public Pollable, public FrameReceiver {
 public:
  TcpLink(FileDescriptor socket, const StreamIdentity& identity, bool payload_checksum,
          LinkOwner& owner, Reactor& reactor)
      : socket_(std::move(socket)),
        channel_(socket_.get()),
        stream_(channel_, *this, identity, payload_checksum),
        peer_(static_cast<int>(identity.peer_rank)),
        owner_(owner),
        reactor_(reactor) {
    set_looks_left(kLooks);
    reactor_.poller().watch(socket_.get(), EPOLLIN,
                            [this](std::uint32_t events) { on_ready(events); });
  }

  ~TcpLink() override {
    set_looks_left(0);
    if (busy_) reactor_.remove(*this);
    if (open_) reactor_.poller().forget(socket_.get());
  }

  int peer() const override { return peer_; }

  void send(const FrameHeader& header, Bytes payload, SendListener* listener,
            std::uint64_t cookie) override {
    if (!open_) return;
    stream_.send(header, payload, listener, cookie);
    become_busy();
    reactor_.note_unsent();
  }

  MutableBytes window(Remote, std::size_t) override { return {}; }
  std::shared_ptr<const SharedMemory> memory(std::uint64_t) override { return nullptr; }
  void release(const FrameHeader&) override {}
  std::optional<Remote> remote_of(Bytes) const override { return std::nullopt; }
  void offer(std::uint64_t, std::shared_ptr<const SharedMemory>) override {}
  void withdraw(std::uint64_t) override {}
  void abandon() override { stream_.abandon(); }
  bool flushed() const override {
    return !open_ || (!stream_.has_unsent() && bytes_on_the_way(socket_.get()) == 0);
  }

  std::chrono::milliseconds unanswered() const override {
    return open_ ? unanswered_for(socket_.get()) : std::chrono::milliseconds();
  }

  LinkProgress progress() const override {
    const std::uint64_t given = stream_.sent_bytes();
    const std::uint64_t on_the_way =
        open_ ? std::min<std::uint64_t>(given, bytes_on_the_way(socket_.get())) : 0;
    return {.sent = given - on_the_way,
            .unsent = stream_.unsent_bytes() + on_the_way,
            .received = stream_.received_bytes()};
  }

  bool poll() override {
    bool moved = flush();
    if (open_ && looks_left_ > 0 && looked_at_ != reactor_.rests()) {
      looked_at_ = reactor_.rests();
      set_looks_left(looks_left_ - 1);
      if (!reactor_.polls_each_time()) moved |= receive();
    }
    if (asleep_) watch_for_room();
    if (!open_ || (looks_left_ == 0 && !stream_.has_unsent())) become_idle();
    return moved;
  }

  bool flush() override {
    if (!open_ || !stream_.has_unsent()) return false;
    auto moved = stream_.flush(kTurn);
    if (!moved) {
      end_heard_out(moved.error());
      return true;
    }
    if (*moved) set_looks_left(kLooks);  // an answer may come
    return *moved;
  }

  void set_asleep(bool asleep) override {
    asleep_ = asleep;
    if (asleep_) watch_for_room();
  }

  MutableBytes place(const FrameHeader& header) override { return owner_.place(peer_, header); }
  Result<> received(const FrameHeader& header, Bytes payload, bool placed) override {
    return owner_.received(peer_, header, payload, placed);
  }

 private:
  bool receive() {
    auto moved = stream_.receive(kTurn);
    if (!moved) {
      end(moved.error());
      return true;
    }
    if (*moved) set_looks_left(kLooks);
    return *moved;
  }

  void become_busy() {
    if (busy_) return;
    busy_ = true;
    asleep_ = reactor_.is_asleep();
    reactor_.add(*this);
  }

  void become_idle() {
    busy_ = false;
    reactor_.remove(*this);
  }

  void set_looks_left(int looks) {
    if (looks > 0 && looks_left_ == 0) reactor_.note_looking(+1);
    if (looks == 0 && looks_left_ > 0) reactor_.note_looking(-1);
    looks_left_ = looks;
    if (looks > 0) become_busy();
  }

  void on_ready(std::uint32_t events) {
    if ((events & EPOLLOUT) != 0) {
      flush();
      if (open_) watch_for_room();
    }
    if (open_ && (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) receive();
  }

  // A driver that is awake tries again at each look; the poller is asked for those that sleep.
  void watch_for_room() {
    const bool watched = stream_.has_unsent();
    if (!open_ || watched == room_watched_) return;
    room_watched_ = watched;
    reactor_.poller().change(socket_.get(), watched ? EPOLLIN | EPOLLOUT : EPOLLIN);
  }

  // Writing failed, but the peer's last frames (its goodbye, or why it failed) may lie here unread.
  void end_heard_out(const Failure& why) {
    for (;;) {
      auto moved = stream_.receive();
      if (!moved) return end(moved.error());
      if (!*moved) return end(why);
    }
  }

  void end(const Failure& why) {
    open_ = false;
    set_looks_left(0);
    reactor_.poller().forget(socket_.get());
    owner_.lost(peer_, why);
  }

  FileDescriptor socket_;
  SocketChannel channel_;
  FrameStream stream_;
  const int peer_;
  LinkOwner& owner_;
  Reactor& reactor_;
  bool open_ = true;
  bool asleep_ = false;
  bool room_watched_ = false;
  bool busy_ = false;
  int looks_left_ = 0;
  std::uint64_t looked_at_ = ~std::uint64_t{0};  // the reactor's rests then
};

}  // namespace

std::unique_ptr<Link> make_tcp_link(FileDescriptor socket, const StreamIdentity& identity,
                                    bool payload_checksum, LinkOwner& owner, Reactor& reactor) {
  return std::make_unique<TcpLink>(std::move(socket), identity, payload_checksum, owner, reactor);
}

}  // namespace paceline::transport
