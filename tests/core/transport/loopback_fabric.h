// A fabric within one process that promises no more than a fabric must: messages come in any order,
// and it decides by chance which payloads stay with the sender until they are fetched.
#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <map>
#include <mutex>

#include "paceline/core/base/seed.h"
#include "paceline/core/transport/fabric/fabric.h"
#include "paceline/core/transport/frame/wire.h"
#include "paceline/core/transport/socket/file_descriptor.h"

namespace paceline::test {

using transport::FabricEvent;
using transport::FabricMessage;
using PortNumber = std::uint64_t;

// A message on its way. Guarded by LoopbackNetwork's mutex.
struct LoopbackParcel {
  PortNumber from = 0;
  std::uint64_t id = 0;
  std::vector<std::byte> prefix;
  std::vector<std::byte> copy;
  Bytes source;  // a payload that stays with the sender; empty once it is closed
  std::size_t bytes = 0;
};

class LoopbackMessage final : public FabricMessage {
 public:
  explicit LoopbackMessage(std::shared_ptr<LoopbackParcel> parcel) : parcel_(std::move(parcel)) {}
  Bytes prefix() const override { return parcel_->prefix; }
  std::size_t bytes() const override { return parcel_->bytes; }
  bool is_here() const override { return parcel_->copy.size() == parcel_->bytes; }
  Bytes payload() const override { return parcel_->copy; }
  const std::shared_ptr<LoopbackParcel>& parcel() const { return parcel_; }

 private:
  const std::shared_ptr<LoopbackParcel> parcel_;
};

// The state that the fabrics of several reactors share.
class LoopbackNetwork {
 public:
  struct Port {
    int bell = -1;  // of its fabric
    std::deque<std::shared_ptr<LoopbackParcel>> parcels;
    std::vector<std::shared_ptr<LoopbackParcel>> lent;
    std::deque<FabricEvent> events;  // but arrivals
  };

  std::mutex mutex;
  std::map<PortNumber, Port> ports;
  PortNumber next = 1;

  void tell(PortNumber to, FabricEvent event) {
    const auto found = ports.find(to);
    if (found == ports.end()) return;
    found->second.events.push_back(std::move(event));
    ring(found->second);
  }
  static void ring(const Port& port) {
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(port.bell, &one, sizeof one);
  }
};

class LoopbackPort final : public transport::FabricPort {
 public:
  LoopbackPort(LoopbackNetwork& network, int bell, std::uint64_t seed)
      : network_(network), numbers_(seed) {
    const std::lock_guard lock(network_.mutex);
    own_ = network_.next++;
    network_.ports[own_].bell = bell;
  }
  ~LoopbackPort() override {
    const std::lock_guard lock(network_.mutex);
    for (const auto& parcel : network_.ports[own_].lent) parcel->source = {};
    network_.ports.erase(own_);
    network_.tell(peer_, {.why = "the peer has closed its port"});
  }

  std::vector<std::byte> address() const override {
    return transport::WireWriter().integer(own_).bytes();
  }
  Result<> connect(Bytes peers_address) override {
    peer_ = transport::WireReader(peers_address).integer<PortNumber>();
    return Done{};
  }
  bool is_connected() const override { return peer_ != 0; }

  void send(Bytes prefix, Bytes payload, std::uint64_t id) override {
    const bool lends = !payload.empty() && numbers_.below(2) == 0;
    auto parcel = std::make_shared<LoopbackParcel>(
        LoopbackParcel{.from = own_,
                       .id = id,
                       .prefix = {prefix.begin(), prefix.end()},
                       .copy = {payload.begin(), lends ? payload.begin() : payload.end()},
                       .source = lends ? payload : Bytes(),
                       .bytes = payload.size()});
    const std::lock_guard lock(network_.mutex);
    if (lends) network_.ports[own_].lent.push_back(parcel);
    else network_.tell(own_, {.kind = FabricEvent::Kind::sent, .id = id});
    const auto peer = network_.ports.find(peer_);
    if (peer == network_.ports.end()) return;
    peer->second.parcels.push_back(std::move(parcel));
    LoopbackNetwork::ring(peer->second);
  }

  void fetch(std::unique_ptr<FabricMessage> message, MutableBytes into) override {
    const auto parcel = static_cast<LoopbackMessage&>(*message).parcel();
    const std::lock_guard lock(network_.mutex);
    if (parcel->source.empty()) return;
    std::ranges::copy(parcel->source, into.begin());
    std::erase(network_.ports[parcel->from].lent, parcel);
    network_.tell(parcel->from, {.kind = FabricEvent::Kind::sent, .id = parcel->id});
    network_.tell(own_, {.kind = FabricEvent::Kind::fetched});
  }

  // Any of the next few arrivals, or what else has happened.
  std::optional<FabricEvent> next() override {
    const std::lock_guard lock(network_.mutex);
    auto& port = network_.ports[own_];
    if (port.parcels.empty() || (!port.events.empty() && numbers_.below(2) == 0)) {
      if (port.events.empty()) return std::nullopt;
      FabricEvent event = std::move(port.events.front());
      port.events.pop_front();
      return event;
    }
    const auto which =
        port.parcels.begin() +
        static_cast<std::ptrdiff_t>(numbers_.below(std::min<std::size_t>(port.parcels.size(), 4)));
    auto parcel = std::move(*which);
    port.parcels.erase(which);
    return FabricEvent{.kind = FabricEvent::Kind::arrived,
                       .message = std::make_unique<LoopbackMessage>(std::move(parcel))};
  }

 private:
  LoopbackNetwork& network_;
  SeededNumbers numbers_;
  PortNumber own_ = 0, peer_ = 0;
};

class LoopbackFabric final : public transport::Fabric {
 public:
  LoopbackFabric(std::shared_ptr<LoopbackNetwork> network, std::uint64_t seed)
      : network_(std::move(network)),
        seed_(seed),
        bell_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

  std::unique_ptr<transport::FabricPort> open() override {
    return std::make_unique<LoopbackPort>(*network_, bell_.get(), ++seed_);
  }
  bool progress() override { return false; }
  int descriptor() const override { return bell_.get(); }
  bool arm() override {
    std::uint64_t rings = 0;
    return ::read(bell_.get(), &rings, sizeof rings) < 0;
  }

 private:
  const std::shared_ptr<LoopbackNetwork> network_;
  std::uint64_t seed_;
  const transport::FileDescriptor bell_;
};

}  // namespace paceline::test
