#include "paceline/core/membership/generation/generation_port.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "paceline/core/base/check.h"

namespace paceline::membership {
namespace {

using transport::FrameHeader;
using transport::FrameType;

// The descriptor of a frame with which a machine drops its peer.
constexpr std::uint64_t kDrop = 1;

}  // namespace

GenerationPort::GenerationPort(std::shared_ptr<transport::Reactor> reactor,
                               std::shared_ptr<Generation> generation, std::uint32_t group,
                               machine::Machine& machine, const std::set<int>& may_be_lost)
    : reactor_(std::move(reactor)),
      generation_(std::move(generation)),
      group_(group),
      machine_(machine) {
  PACELINE_CHECK(generation_->reserve_group(group_), "the number {} is that of another group",
                 group_);
  reactor_->run([&] {
    generation_->bear_loss_of(may_be_lost);
    generation_->subscribe(group_, this);
  });
}

GenerationPort::~GenerationPort() {
  reactor_->run([this] {
    self_.reset();
    generation_->subscribe(group_, nullptr);
    for (const auto& [timer, id] : timers_) reactor_->poller().cancel(id);
  });
  generation_->release_group(group_);
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
  link->send({.type = FrameType::machine,
              .sequence = message.kind,
              .index = message.index,
              .group = group_},
             message.payload);
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
    link->send({.type = FrameType::machine, .descriptor = kDrop, .group = group_},
               transport::encode(why));
}

Result<> GenerationPort::received(int peer, const FrameHeader& header, Bytes payload, bool) {
  if (header.type != FrameType::machine || header.sequence > UINT32_MAX)
    return Failure{Fault::io,
                   fmt::format("rank {} sent a {} frame to a machine: a bug, please report it",
                               peer, name_of(header.type)),
                   {peer}};
  if (parted_.contains(peer)) return Done{};
  if (header.descriptor == kDrop) {
    lose(peer);
    return Done{};
  }
  const machine::Message message{
      static_cast<std::uint32_t>(header.sequence), header.index, {payload.begin(), payload.end()}};
  machine::perform(machine_.on_message(peer, message, now()), *this);
  return Done{};
}

Result<> GenerationPort::borrowed(int peer, const FrameHeader& header, Bytes) {
  return received(peer, {.type = header.type, .sequence = UINT64_MAX}, {}, false);
}

// The links of a generation that has failed carry nothing any more.
void GenerationPort::failed(const Failure&) {
  for (int peer = 0; peer < generation_->identity().size; ++peer)
    if (peer != generation_->identity().rank) lose(peer);
}

void GenerationPort::lose(int peer) {
  if (!parted_.insert(peer).second) return;
  machine::perform(machine_.on_lost(peer, now()), *this);
}

}  // namespace paceline::membership
