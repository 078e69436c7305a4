#include "paceline/core/transport/fabric/fabric_link.h"

#include <fmt/format.h>

#include <deque>
#include <map>

#include "paceline/core/transport/frame/lanes.h"
#include "paceline/core/transport/frame/wire.h"
#include "paceline/core/transport/link/tcp_link.h"

namespace paceline::transport {
namespace {

// A message's prefix holds the frame's header, and its number among the frames to this peer, since
// fabrics promise no order.
constexpr std::size_t kPrefixBytes = kFrameHeaderBytes + sizeof(std::uint64_t);

// The limit of frames that wait here for earlier frames, or before a goodbye for frames of the
// fabric.
constexpr std::size_t kMostWaitingBytes = std::size_t{256} << 20;
constexpr std::size_t kMostWaiting = 1 << 20;
constexpr std::size_t kMostHeld = 64;

// The bytes that the fabric gets at once; other frames wait here, in lanes.
constexpr std::size_t kInHand = 4 << 20;

// A peer that fails closes its port and says why on the connection: the one may come before the
// other.
constexpr std::chrono::seconds kLastWords{2};

class FabricLink final : public Link, public Pollable, private LinkOwner {
 public:
  FabricLink(std::unique_ptr<FabricPort> port, FileDescriptor socket,
             const StreamIdentity& identity, bool payload_checksum, LinkOwner& owner,
             Reactor& reactor)
      : identity_(identity),
        payload_checksum_(payload_checksum),
        peer_(static_cast<int>(identity.peer_rank)),
        owner_(owner),
        reactor_(reactor),
        port_(std::move(port)),
        connection_(make_tcp_link(std::move(socket), identity, payload_checksum, *this, reactor)) {
    reactor_.add(*this);
  }

  ~FabricLink() override {
    reactor_.remove(*this);
    close_port();
  }

  int peer() const override { return peer_; }

  void send(const FrameHeader& header, Bytes payload, SendListener* listener,
            std::uint64_t cookie) override {
    if (!open_) return;
    if (abandoned_ || header.type == FrameType::failure)
      return connection_->send(header, payload, listener, cookie);
    if (header.type == FrameType::goodbye) {
      take_turns(~std::size_t{0});
      connection_->send({.type = FrameType::passed, .sequence = sent_}, {});
      unanswered_ = true;
      return connection_->send(header, payload, listener, cookie);
    }
    if (!port_) return;
    Waiting& last = lanes_.push(header.group, {header, payload, listener, cookie, {}});
    if (listener == nullptr) {
      last.owned.assign(payload.begin(), payload.end());
      last.payload = last.owned;
    }
    take_turns(kInHand);
  }

  MutableBytes window(Remote, std::size_t) override { return {}; }
  std::shared_ptr<const SharedMemory> memory(std::uint64_t) override { return nullptr; }
  void release(const FrameHeader&) override {}
  std::optional<Remote> remote_of(Bytes) const override { return std::nullopt; }
  void offer(std::uint64_t, std::shared_ptr<const SharedMemory>) override {}
  void withdraw(std::uint64_t) override {}

  void abandon() override {
    abandoned_ = true;  // what the fabric still brings is of no use to anybody
    close_port();
    unanswered_ = false;
    connection_->abandon();
  }

  bool flushed() const override {
    return !open_ ||
           (connection_->flushed() && lanes_.empty() && outgoing_.empty() && !unanswered_);
  }

  LinkProgress progress() const override {
    LinkProgress progress{.sent = sent_bytes_, .unsent = 0, .received = received_bytes_};
    for (const Outgoing& one : outgoing_)
      if (!one.is_sent) progress.unsent += bytes_of(one.frame);
    lanes_.for_each([&](const Waiting& one) { progress.unsent += bytes_of(one); });
    return progress;
  }

  bool poll() override {
    bool moved = false;
    while (open_ && port_) {
      auto event = port_->next();
      if (!event) break;
      moved = true;
      take(std::move(*event));
    }
    if (abandoned_ && open_ && !held_.empty()) {  // what they waited for does not come
      if (auto taken = go_on_with_connection(); !taken) end(taken.error());
      moved = true;
    }
    return moved;
  }
  void set_asleep(bool) override {}

 private:
  struct Waiting {
    FrameHeader header;
    Bytes payload;
    SendListener* listener = nullptr;
    std::uint64_t cookie = 0;
    std::vector<std::byte> owned;  // the payload, where nobody else holds it
  };
  struct Outgoing {
    Waiting frame;
    bool is_sent = false;
  };
  struct Incoming {
    FrameHeader header;
    std::unique_ptr<FabricMessage> message;
  };

  static std::uint64_t bytes_of(const Waiting& frame) {
    return kFrameHeaderBytes + frame.payload.size();
  }

  void take_turns(std::size_t most) {
    while (!lanes_.empty() && port_ && in_hand_ < most) send_by_fabric(lanes_.take());
  }

  void send_by_fabric(Waiting frame) {
    const std::uint64_t number = sent_++;
    const Bytes payload = frame.payload;
    in_hand_ += payload.size();
    WireWriter prefix;
    prefix.raw(encode(stamped(frame.header, payload, identity_, payload_checksum_)))
        .integer(number);
    outgoing_.push_back({std::move(frame)});
    port_->send(prefix.bytes(), payload, number);
  }

  void take(FabricEvent event) {
    Result<> taken = Done{};
    switch (event.kind) {
      case FabricEvent::Kind::arrived: taken = arrived(std::move(event.message)); break;
      case FabricEvent::Kind::fetched: taken = fetched(); break;
      case FabricEvent::Kind::sent: sent(event.id); break;
      case FabricEvent::Kind::lost: fabric_lost(event.why); break;
    }
    if (taken && event.kind != FabricEvent::Kind::sent) taken = deliver();
    if (!taken) end(taken.error());
  }

  // Listeners are told in the order of the sends.
  void sent(std::uint64_t number) {
    Outgoing& done = outgoing_[number - (sent_ - outgoing_.size())];
    done.is_sent = true;
    in_hand_ -= done.frame.payload.size();
    sent_bytes_ += bytes_of(done.frame);
    take_turns(kInHand);
    while (!outgoing_.empty() && outgoing_.front().is_sent) {
      SendListener* const listener = outgoing_.front().frame.listener;
      const std::uint64_t cookie = outgoing_.front().frame.cookie;
      outgoing_.pop_front();
      if (listener != nullptr) listener->sent(cookie);  // may send more, or abandon
    }
  }

  Result<> arrived(std::unique_ptr<FabricMessage> message) {
    if (message->prefix().size() != kPrefixBytes) return malformed("a prefix of another length");
    WireReader reader(message->prefix());
    RawFrameHeader raw;
    std::ranges::copy(reader.raw(kFrameHeaderBytes), raw.begin());
    const auto number = reader.integer<std::uint64_t>();
    auto header = decode(raw, *identity_.kinds);
    if (!header) return header.error();
    if (auto ours = check_origin(*header, identity_); !ours) return ours;
    if (header->length != message->bytes()) return malformed("a payload of another length");
    waiting_bytes_ += message->is_here() ? header->length : 0;
    if (waiting_.size() >= kMostWaiting || waiting_bytes_ > kMostWaitingBytes)
      return malformed("too many messages before the next one in order");
    if (number < next_ || !waiting_.emplace(number, Incoming{*header, std::move(message)}).second)
      return malformed("a number that it has sent before");
    return Done{};
  }

  Failure malformed(std::string_view what) const {
    return {Fault::io, fmt::format("a malformed message over the fabric: {}", what), {peer_}};
  }

  // Delivers in order, one at a time: the place of a frame may depend on those before it, and its
  // receiver may no longer want it once they are here.
  Result<> deliver() {
    while (open_ && !abandoned_ && !fetching_) {
      auto found = waiting_.extract(next_);
      if (found.empty()) break;
      head_ = std::move(found.mapped());
      const FrameHeader header = head_.header;
      if (head_.message->is_here()) waiting_bytes_ -= header.length;
      const MutableBytes target = owner_.place(peer_, header);  // may abandon
      if (abandoned_) break;
      if (auto fits = check_target(header, target, identity_); !fits) return fits;
      placed_ = !target.empty();
      if (!head_.message->is_here()) {
        fetch(target);
        break;
      }
      const std::unique_ptr<FabricMessage> message = std::move(head_.message);
      Bytes payload = message->payload();
      if (placed_) {
        std::ranges::copy(payload, target.begin());
        payload = target;
      }
      if (auto handed = hand_over(payload); !handed) return handed;
    }
    return go_on_with_connection();
  }

  void fetch(MutableBytes target) {
    const std::size_t length = head_.header.length;
    if (!placed_ && own_payload_.size() < length) own_payload_.resize(length);
    target_ = placed_ ? target : MutableBytes(own_payload_).first(length);
    fetching_ = true;
    port_->fetch(std::move(head_.message), target_);
  }

  Result<> fetched() {
    fetching_ = false;
    return hand_over(target_);
  }

  Result<> hand_over(Bytes payload) {
    if (auto sound = check_payload(head_.header, payload, identity_); !sound) return sound;
    ++next_;
    received_bytes_ += kFrameHeaderBytes + payload.size();
    return owner_.received(peer_, head_.header, payload, placed_);
  }

  // The peer's port is gone, or the network between the two.
  void fabric_lost(const std::string& why) {
    if (last_words_) return;
    last_words_ = reactor_.poller().after(kLastWords, [this, why] {
      last_words_.reset();
      end({Fault::peer_lost, why, {peer_}});
    });
  }

  // --- what comes on the connection --------------------------------------------------------------

  MutableBytes place(int, const FrameHeader&) override { return {}; }
  Result<> borrowed(int, const FrameHeader&, Bytes) override {
    return malformed("a reference to memory");
  }

  Result<> received(int, const FrameHeader& header, Bytes payload, bool) override {
    if (!open_) return Done{};
    if (header.type == FrameType::heard) {
      unanswered_ = unanswered_ && header.sequence != sent_;
      return Done{};
    }
    if (header.type == FrameType::failure) return owner_.received(peer_, header, payload, false);
    if (held_.size() >= kMostHeld) return malformed("too many messages after its goodbye");
    held_.emplace_back(header, std::vector(payload.begin(), payload.end()));
    return go_on_with_connection();
  }

  Result<> go_on_with_connection() {
    while (open_ && !held_.empty()) {
      const FrameHeader& first = held_.front().first;
      const bool counts = first.type == FrameType::passed;
      if (counts && first.sequence > next_ && !abandoned_) return Done{};
      const auto [header, payload] = std::move(held_.front());
      held_.pop_front();
      if (counts) {
        connection_->send({.type = FrameType::heard, .sequence = header.sequence}, {});
        continue;
      }
      if (auto taken = owner_.received(peer_, header, payload, false); !taken) return taken;
    }
    return Done{};
  }

  void lost(int, const Failure& why) override { end(why); }

  void end(const Failure& why) {
    if (!open_) return;
    open_ = false;
    close_port();
    owner_.lost(peer_, why);
  }

  void close_port() {
    waiting_.clear();
    head_.message.reset();
    fetching_ = false;
    port_.reset();
    lanes_.clear();
    outgoing_.clear();
    in_hand_ = 0;
    if (last_words_) reactor_.poller().cancel(*last_words_);
    last_words_.reset();
  }

  const StreamIdentity identity_;
  const bool payload_checksum_;
  const int peer_;
  LinkOwner& owner_;
  Reactor& reactor_;
  std::unique_ptr<FabricPort> port_;
  std::unique_ptr<Link> connection_;

  std::uint64_t sent_ = 0;  // frames over the fabric; the next one's number
  Lanes<Waiting> lanes_;
  std::deque<Outgoing> outgoing_;
  std::size_t in_hand_ = 0;  // bytes of those that are not yet sent
  std::uint64_t sent_bytes_ = 0, received_bytes_ = 0;
  bool unanswered_ = false;  // the goodbye has asked whether all were heard

  std::uint64_t next_ = 0;  // the number that is handed over next
  std::map<std::uint64_t, Incoming> waiting_;
  std::size_t waiting_bytes_ = 0;
  Incoming head_;  // what is being handed over
  MutableBytes target_;
  bool placed_ = false;
  bool fetching_ = false;
  std::vector<std::byte> own_payload_;

  std::deque<std::pair<FrameHeader, std::vector<std::byte>>> held_;
  std::optional<Poller::TimerId> last_words_;
  bool open_ = true;
  bool abandoned_ = false;
};

}  // namespace

std::unique_ptr<Link> make_fabric_link(std::unique_ptr<FabricPort> port, FileDescriptor socket,
                                       const StreamIdentity& identity, bool payload_checksum,
                                       LinkOwner& owner, Reactor& reactor) {
  return std::make_unique<FabricLink>(std::move(port), std::move(socket), identity,
                                      payload_checksum, owner, reactor);
}

}  // namespace paceline::transport
