#include "paceline/core/transport/shared/shared_link.h"

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <tuple>

#include "paceline/core/transport/frame/wire.h"
#include "paceline/core/transport/memory/staging.h"
#include "paceline/core/transport/shared/memory_offers.h"
#include "paceline/core/transport/shared/ring.h"

namespace paceline::transport {
namespace {

// Payloads that do not lie in shared memory are read by the peer in a copy. As much as the segments
// in flight of one long all_reduce between two ranks.
constexpr std::size_t kStagingBytes = std::size_t{4} << 20;
constexpr std::uint64_t kStagingSegment = ~std::uint64_t{0};
constexpr std::size_t kMostWithheld = 1 << 20;
// This rank may look for a segment only after the peer has withdrawn it, but soon.
constexpr std::size_t kMostWithdrawn = 256;

// The data frame that a reference stands for and `taken` answers.
using MessageKey = std::tuple<std::uint32_t, std::uint64_t, std::uint32_t>;
MessageKey key_of(const FrameHeader& h) {
  return {h.group, h.sequence, h.index};
}

class SharedLink final : public Link, public Inbox::User, public FrameReceiver {
 public:
  SharedLink(std::unique_ptr<SharedMedium> medium, const StreamIdentity& identity,
             const SegmentTable& segments, LinkOwner& owner, Reactor& reactor, Inbox* inbox)
      : medium_(std::move(medium)),
        channel_(medium_->region(), medium_->side()),
        leases_(medium_->region(), medium_->side(), medium_->in_one_process()),
        stream_(channel_, *this, identity, false),
        peer_(static_cast<int>(identity.peer_rank)),
        own_(static_cast<int>(identity.own_rank)),
        segments_(segments),
        owner_(owner),
        reactor_(reactor),
        inbox_(inbox),
        offers_(
            reactor.poller(),
            [this](std::uint64_t segment, const MemoryOffers::Memory& memory) {
              return medium_->offer(segment, memory);
            },
            [this](std::uint64_t segment) {
              tell({.type = FrameType::withheld}, WireWriter().integer(segment).bytes());
            }) {
    medium_->watch(
        reactor_, [this](std::uint64_t segment, bool is_here) { offered_here(segment, is_here); },
        [this] { note(); });
    for (const auto& [id, memory] : segments_.segments()) offers_.add(id, memory);
    if (inbox_ != nullptr) inbox_->add(peer_, *this);
    else reactor_.add(*this);
  }

  ~SharedLink() override {
    if (inbox_ != nullptr) inbox_->remove(peer_);
    else reactor_.remove(*this);
  }

  int peer() const override { return peer_; }

  void send(const FrameHeader& header, Bytes payload, SendListener* listener,
            std::uint64_t cookie) override {
    if (!open_) return;
    note();
    const bool may_refer = header.type == FrameType::data && listener != nullptr &&
                           payload.size() >= kShortestReference;
    if (!may_refer) return stream_.send(header, payload, listener, cookie);
    Reference reference{listener, cookie, {}};
    auto place = remote_of(payload);
    if (!place) {
      reference.staged = stage(payload);
      if (!reference.staged) return stream_.send(header, payload, listener, cookie);
      place = Remote{kStagingSegment, reference.staged->offset};
    }
    references_[key_of(header)] = reference;
    FrameHeader refers = header;
    refers.type = FrameType::reference;
    WireWriter where;
    where.integer(place->segment).integer(place->offset).integer(std::uint64_t{payload.size()});
    stream_.send(refers, where.bytes());
  }

  MutableBytes window(Remote target, std::size_t bytes) override {
    return open_ && target.segment != 0 ? resolve(target, bytes) : MutableBytes();
  }

  std::shared_ptr<const SharedMemory> memory(std::uint64_t segment) override {
    return open_ ? medium_->memory(segment) : nullptr;
  }

  bool begin_use() override { return leases_.begin_use(); }
  bool end_use() override { return leases_.end_use(); }

  void release(const FrameHeader& reference) override {
    borrowed_.erase(key_of(reference));
    if (!open_) return;
    note();
    FrameHeader taken = reference;
    taken.type = FrameType::taken;
    taken.flags = 0;
    stream_.send(taken, {});
    if (!receiving_) reactor_.note_unsent();
  }

  std::optional<Remote> remote_of(Bytes own) const override {
    const auto place = segments_.find(own);
    return place && offers_.state(place->segment) == Offered::had ? place : std::nullopt;
  }

  void abandon() override {
    leases_.fail();
    references_.clear();
    borrowed_.clear();
    abandoned_ = true;  // nobody reads here any more
    stream_.abandon();
  }

  bool flushed() const override { return !open_ || !stream_.has_unsent(); }
  LinkProgress progress() const override {
    return {.sent = stream_.sent_bytes(),
            .unsent = stream_.unsent_bytes(),
            .received = stream_.received_bytes()};
  }

  bool poll() override {
    if (!open_) return false;
    // Before the last look at the ring, which may hold its goodbye.
    const bool closed = medium_->peer_closed();
    offers_.make_due();
    receiving_ = true;
    auto received = stream_.receive();
    receiving_ = false;
    auto flushed = received && open_ ? stream_.flush() : Result<bool>(false);
    wake_peer();
    if (!received) return end(received.error());
    if (!flushed) return end(flushed.error());
    if (closed && !*received)
      return end({Fault::peer_lost, "the connection was closed by the other side", {}});
    return *received || *flushed;
  }

  bool flush() override {
    if (!open_) return false;
    auto flushed = stream_.flush();
    wake_peer();
    return flushed ? *flushed : end(flushed.error());
  }

  void set_asleep(bool asleep) override {
    if (open_) channel_.set_asleep(asleep);
  }

  bool is_marked() const override { return is_marked_ || !open_; }
  bool has_more() const override {
    return open_ && (stream_.has_unsent() || medium_->peer_closed() || offers_.has_lost());
  }

  MutableBytes place(const FrameHeader& header) override { return owner_.place(peer_, header); }

  Result<> received(const FrameHeader& header, Bytes payload, bool placed) override {
    switch (header.type) {
      case FrameType::reference: return use(header, payload);
      case FrameType::taken: return taken(header);
      case FrameType::withdraw: return withdrawn(payload);
      case FrameType::attached: return answered_offer(payload);
      case FrameType::withheld: return withheld(payload);
      case FrameType::nudge: return Done{};  // it has woken us, which was all
      default: return answered(owner_.received(peer_, header, payload, placed));
    }
  }

  void offer(std::uint64_t segment, std::shared_ptr<const SharedMemory> memory) override {
    if (open_) offers_.add(segment, std::move(memory));
  }
  Offered offered(std::uint64_t segment) const override { return offers_.state(segment); }
  bool withholds(std::uint64_t segment) const override {
    return withheld_.contains(segment) || std::ranges::count(withdrawn_, segment) > 0;
  }
  void withdraw(std::uint64_t segment) override {
    offers_.remove(segment);
    note();
    if (open_) stream_.send({.type = FrameType::withdraw}, WireWriter().integer(segment).bytes());
  }

 private:
  struct Reference {
    SendListener* listener;
    std::uint64_t cookie;
    std::optional<Staging::Piece> staged;
  };

  std::optional<Staging::Piece> stage(Bytes payload) {
    if (staging_.memory() == nullptr) {
      staging_.prepare();
      if (staging_.memory() != nullptr) offers_.add(kStagingSegment, staging_.memory());
    }
    if (offers_.state(kStagingSegment) != Offered::had) return std::nullopt;
    return staging_.copy(payload);
  }

  void note() {
    if (inbox_ != nullptr) inbox_->note(peer_);
  }

  // The peer has offered memory. Its inbox is marked before it can have the answer.
  void offered_here(std::uint64_t segment, bool is_here) {
    if (is_here) withheld_.erase(segment);
    if (is_here) std::erase(withdrawn_, segment);
    if (is_here && segment == InboxPage::kSegment) {
      peers_memory_ = medium_->memory(segment);
      peers_inbox_ = InboxPage::in(peers_memory_);
      is_here = peers_inbox_ != nullptr;
    }
    tell({.type = FrameType::attached},
         WireWriter().integer(segment).integer(std::uint8_t{is_here}).bytes());
  }

  void tell(const FrameHeader& header, Bytes payload) {
    if (!open_) return;
    note();
    stream_.send(header, payload);
    if (!receiving_) reactor_.note_unsent();
  }

  // The peer's memory; empty when there is no such place.
  MutableBytes resolve(Remote place, std::size_t bytes) {
    const auto memory = medium_->memory(place.segment);
    const MutableBytes all = memory ? memory->bytes() : MutableBytes();
    if (place.offset > all.size() || bytes > all.size() - place.offset) return {};
    return all.subspan(place.offset, bytes);
  }

  Result<> use(const FrameHeader& header, Bytes payload) {
    WireReader reader(payload);
    Remote place;
    place.segment = reader.integer<std::uint64_t>();
    place.offset = reader.integer<std::uint64_t>();
    const auto bytes = reader.integer<std::uint64_t>();
    const MutableBytes memory = reader.ok_and_empty() ? resolve(place, bytes) : MutableBytes();
    if (bytes == 0 || memory.size() != bytes) {
      return Failure{Fault::io, "a reference to memory that the peer does not share", {peer_}};
    }
    if (!abandoned_) borrowed_[key_of(header)] = place.segment;
    return answered(owner_.borrowed(peer_, header, memory));
  }

  // Memory that is being read here stays mapped: a peer that withdraws it breaks the protocol, and
  // shall not crash us.
  Result<> withdrawn(Bytes payload) {
    WireReader reader(payload);
    const auto segment = reader.integer<std::uint64_t>();
    const bool read =
        std::ranges::any_of(borrowed_, [&](const auto& entry) { return entry.second == segment; });
    if (!reader.ok_and_empty() || read) {
      return Failure{Fault::io, "the peer withdrew memory that it had lent", {peer_}};
    }
    medium_->withdraw(segment);
    withheld_.erase(segment);
    withdrawn_.push_back(segment);
    if (withdrawn_.size() > kMostWithdrawn) withdrawn_.pop_front();
    return Done{};
  }

  Result<> answered_offer(Bytes payload) {
    WireReader reader(payload);
    const auto segment = reader.integer<std::uint64_t>();
    const auto has_it = reader.integer<std::uint8_t>();
    if (!reader.ok_and_empty())
      return Failure{Fault::io, "a malformed answer to an offer", {peer_}};
    offers_.answered(segment, has_it != 0);
    if (segment == InboxPage::kSegment && has_it != 0) is_marked_ = true;
    return Done{};
  }

  Result<> withheld(Bytes payload) {
    WireReader reader(payload);
    const auto segment = reader.integer<std::uint64_t>();
    if (!reader.ok_and_empty() || withheld_.size() >= kMostWithheld)
      return Failure{Fault::io, "a malformed withheld frame, or too many", {peer_}};
    withheld_.insert(segment);
    return Done{};
  }

  // Frames that answer a frame leave before the next frame is looked at, which may hold a long
  // reduction while the peer waits.
  Result<> answered(Result<> taken) {
    if (!taken || !open_ || !stream_.has_unsent()) return taken;
    if (auto flushed = stream_.flush(); !flushed) return flushed.error();
    wake_peer();
    return Done{};
  }

  void wake_peer() {
    if (!channel_.take_moved()) return;
    const bool sleeps = peers_inbox_ != nullptr ? peers_inbox_->mark(own_) : channel_.peer_asleep();
    if (sleeps) medium_->ring_bell();
  }

  Result<> taken(const FrameHeader& header) {
    const auto found = references_.find(key_of(header));
    if (found == references_.end()) return Done{};  // abandoned meanwhile
    const Reference reference = found->second;
    references_.erase(found);
    if (reference.staged) staging_.give_back(*reference.staged);
    reference.listener->sent(reference.cookie);
    return Done{};
  }

  bool end(const Failure& why) {
    open_ = false;
    owner_.lost(peer_, why);
    return true;
  }

  std::unique_ptr<SharedMedium> medium_;
  RingChannel channel_;
  MemoryLeases leases_;
  FrameStream stream_;
  const int peer_, own_;
  const SegmentTable& segments_;
  LinkOwner& owner_;
  Reactor& reactor_;
  Inbox* const inbox_;  // nullptr: the reactor looks at this link itself
  std::shared_ptr<const SharedMemory> peers_memory_;
  InboxPage* peers_inbox_ = nullptr;
  bool is_marked_ = false;
  Staging staging_{kStagingBytes};
  MemoryOffers offers_;
  std::set<std::uint64_t> withheld_;              // the peer's segments
  std::deque<std::uint64_t> withdrawn_;           // the last ones
  std::map<MessageKey, Reference> references_;    // ours, that the peer reads
  std::map<MessageKey, std::uint64_t> borrowed_;  // the peer's segments, that we read
  bool open_ = true;
  bool abandoned_ = false;
  bool receiving_ = false;  // what is sent meanwhile goes out at the end of it
};

}  // namespace

std::unique_ptr<Link> make_shared_link(std::unique_ptr<SharedMedium> medium,
                                       const StreamIdentity& identity, const SegmentTable& segments,
                                       LinkOwner& owner, Reactor& reactor, Inbox* inbox) {
  return std::make_unique<SharedLink>(std::move(medium), identity, segments, owner, reactor, inbox);
}

}  // namespace paceline::transport
