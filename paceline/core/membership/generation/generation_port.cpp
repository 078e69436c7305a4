#include "paceline/core/membership/generation/generation_port.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "paceline/core/base/check.h"
#include "paceline/core/membership/generation/generation_frames.h"

namespace paceline::membership {
namespace {

using transport::FrameHeader;

// The descriptor of a frame with which a machine drops its peer. Else it is the number of the
// message's bytes that follow in further frames.
constexpr std::uint64_t kDrop = UINT64_MAX;

// The first piece of a message reserves at most so much: its length is the peer's claim.
constexpr std::uint64_t kMostReserved = std::uint64_t{64} << 20;

// Throws away what still comes for a machine that has ended here.
class Deaf final : public FrameSink {
 public:
  MutableBytes place(int, const FrameHeader&) override { return {}; }
  Result<> received(int, const FrameHeader&, Bytes, bool) override { return Done{}; }
  Result<> borrowed(int, const FrameHeader&, Bytes) override { return Done{}; }
  void failed(const Failure&) override {}
  void departed(int) override {}
  std::string pending_call_of(int) const override { return {}; }
};

FrameSink* deaf() {
  static Deaf one;
  return &one;
}

}  // namespace

GenerationPort::GenerationPort(std::shared_ptr<transport::Reactor> reactor,
                               std::shared_ptr<Generation> generation, std::uint32_t group,
                               machine::Machine& machine, const std::set<int>& may_be_lost,
                               const std::set<int>& members)
    : reactor_(std::move(reactor)),
      generation_(std::move(generation)),
      group_(group),
      machine_(machine),
      peers_(members),
      has_servers_(!members.empty() && *members.rbegin() >= generation_->identity().ranks()) {
  PACELINE_CHECK(generation_->reserve_group(group_), "the number {} is that of another group",
                 group_);
  const GenerationIdentity& own = generation_->identity();
  for (int rank = 0; members.empty() && rank < own.ranks(); ++rank) peers_.insert(rank);
  peers_.erase(own.rank);
  reactor_->run([&] {
    if (has_servers_)
      for (const int late : generation_->late_members()) peers_.insert(late);
    generation_->bear_loss_of(may_be_lost);
    generation_->subscribe(group_, this);
    for (const int peer : peers_)
      if (generation_->has_departed(peer)) lose(peer);
  });
}

GenerationPort::~GenerationPort() {
  if (!reactor_->is_of_this_process()) return;
  reactor_->run([this] {
    self_.reset();
    generation_->subscribe(group_, deaf());
    const GenerationIdentity& own = generation_->identity();
    const Failure why{Fault::cancelled,
                      fmt::format("the machine of {} has ended", own.name_of(own.rank)),
                      {own.rank}};
    for (const int peer : peers_) drop(peer, why);
    for (const auto& [timer, id] : timers_) reactor_->poller().cancel(id);
  });
}

void GenerationPort::tell(machine::Message message) {
  reactor_->post([self = std::weak_ptr(self_), message = std::move(message)] {
    const auto port = self.lock();
    if (!port) return;
    GenerationPort& here = **port;
    const int own = here.generation_->identity().rank;
    machine::perform(here.machine_.on_message(own, message, here.now()), here);
  });
}

void GenerationPort::send(int to, const machine::Message& message) {
  if (to == generation_->identity().rank) return tell(message);
  transport::Link* const link = parted_.contains(to) ? nullptr : generation_->link(to);
  if (link == nullptr) return;
  Bytes rest = message.payload;
  do {
    const Bytes piece = rest.first(std::min(rest.size(), transport::kLongestPayload));
    rest = rest.subspan(piece.size());
    link->send({.type = frame::kMachine,
                .sequence = message.kind,
                .index = message.index,
                .descriptor = rest.size(),
                .group = group_},
               piece);
  } while (!rest.empty());
}

void GenerationPort::arm(std::uint32_t timer, machine::Time at) {
  auto& id = timers_[timer];
  if (id != 0) reactor_->poller().cancel(id);
  const machine::Time wait = std::max(machine::Time(0), at - now());
  id = reactor_->poller().after(wait, [this, timer] {
    timers_.erase(timer);
    machine::perform(machine_.on_timer(timer, now()), *this);
  });
}

void GenerationPort::drop(int peer, const Failure& why) {
  if (!parted_.insert(peer).second) return;
  if (transport::Link* const link = generation_->link(peer); link != nullptr)
    link->send({.type = frame::kMachine, .descriptor = kDrop, .group = group_},
               transport::encode(why));
}

Result<> GenerationPort::received(int peer, const FrameHeader& header, Bytes payload, bool) {
  if (header.type != frame::kMachine || header.sequence > UINT32_MAX)
    return Failure{Fault::io,
                   fmt::format("{} sent a {} frame to a machine: a bug, please report it",
                               generation_->identity().name_of(peer),
                               generation_->frame_kinds().name_of(header.type)),
                   {peer}};
  if (parted_.contains(peer)) return Done{};
  if (header.descriptor == kDrop) {
    // A machine that ends drops its peers too, and has nothing to say against them.
    if (auto why = transport::decode_failure(payload); why && why->fault != Fault::cancelled)
      drops_.emplace(peer, *std::move(why));
    lose(peer);
    return Done{};
  }
  Begun& begun = begun_[peer];
  if (!continues(begun, header, payload))
    return Failure{Fault::io,
                   fmt::format("{} sent a piece of {} bytes, with {} to follow, where {} bytes "
                               "of a machine's message were missing: a bug, please report it",
                               generation_->identity().name_of(peer), payload.size(),
                               header.descriptor, begun.missing_bytes),
                   {peer}};
  if (begun.payload.empty() && header.descriptor > 0)
    begun.payload.reserve(payload.size() + std::min(header.descriptor, kMostReserved));
  begun.payload.insert(begun.payload.end(), payload.begin(), payload.end());
  begun.missing_bytes = header.descriptor;
  if (begun.missing_bytes > 0) {
    pieces_.fetch_add(1, std::memory_order_relaxed);
    return Done{};
  }
  const machine::Message message{static_cast<std::uint32_t>(header.sequence), header.index,
                                 std::move(begun_.extract(peer).mapped().payload)};
  machine::perform(machine_.on_message(peer, message, now()), *this);
  return Done{};
}

std::optional<Failure> GenerationPort::dropped_by(int peer) const {
  const auto found = drops_.find(peer);
  return found == drops_.end() ? std::nullopt : std::optional(found->second);
}

// Pieces of one message come one after the other.
bool GenerationPort::continues(const Begun& begun, const FrameHeader& header, Bytes piece) const {
  if (begun.missing_bytes == 0) return true;
  return !piece.empty() && piece.size() <= begun.missing_bytes &&
         header.descriptor == begun.missing_bytes - piece.size();
}

Result<> GenerationPort::borrowed(int peer, const FrameHeader& header, Bytes) {
  return received(peer, {.type = header.type, .sequence = UINT64_MAX}, {}, false);
}

// The links of a generation that has failed carry nothing any more.
void GenerationPort::failed(const Failure& why) {
  failure_ = why;
  for (const int peer : peers_) lose(peer);
}

void GenerationPort::lose(int peer) {
  if (!parted_.insert(peer).second) return;
  begun_.erase(peer);
  machine::perform(machine_.on_lost(peer, now()), *this);
}

}  // namespace paceline::membership
