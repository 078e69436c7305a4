#include "paceline/core/machine/virtual_network.h"

#include <algorithm>

#include "paceline/core/base/check.h"
#include "paceline/core/machine/machine.h"

namespace paceline::machine {

// Turns one machine's actions into events.
class VirtualNetwork::Sender final : public Port {
 public:
  Sender(VirtualNetwork& network, int address) : network_(network), address_(address) {}
  void send(int to, const Message& message) override { network_.send(address_, {to, message}); }
  void arm(std::uint32_t timer, Time at) override { network_.arm(address_, {timer, at}); }
  void drop(int peer, const Failure&) override { network_.part(address_, peer); }

 private:
  VirtualNetwork& network_;
  const int address_;
};

VirtualNetwork::VirtualNetwork(std::uint64_t seed, const NetworkFaults& faults)
    : faults_(faults), numbers_(seed) {}

void VirtualNetwork::add(int address, Machine& machine) {
  PACELINE_CHECK(machines_.emplace(address, &machine).second, "address {} is taken", address);
}

void VirtualNetwork::tell(int address, int from, const Message& message) {
  schedule(now_, {.kind = Kind::message, .to = address, .from = from, .message = message});
}

void VirtualNetwork::kill(int address, Time at) {
  schedule(at, {.kind = Kind::kill, .to = address});
}

std::size_t VirtualNetwork::run(Time until) {
  std::size_t happened = 0;
  while (!events_.empty() && events_.begin()->first <= until) {
    const auto next = events_.extract(events_.begin());
    now_ = next.key();
    happen(next.mapped());
    ++happened;
  }
  return happened;
}

void VirtualNetwork::happen(const Event& event) {
  const auto found = machines_.find(event.to);
  if (found == machines_.end()) return;
  fingerprint_ =
      mix(mix(fingerprint_, static_cast<std::uint64_t>(now_.count())),
          static_cast<std::uint64_t>(event.to) << 32 ^ static_cast<std::uint64_t>(event.from) << 8 ^
              static_cast<std::uint64_t>(event.kind));
  Sender port(*this, event.to);
  switch (event.kind) {
    case Kind::message:
      if (parted_.contains({event.to, event.from})) return;
      ++messages_;
      perform(found->second->on_message(event.from, event.message, now_), port);
      return;
    case Kind::timer:
      if (armings_[{event.to, event.timer}] != event.arming) return;
      perform(found->second->on_timer(event.timer, now_), port);
      return;
    case Kind::lost:
      if (!parted_.insert({event.to, event.from}).second) return;
      perform(found->second->on_lost(event.from, now_), port);
      return;
    case Kind::kill:
      machines_.erase(found);
      for (const auto& [one, other] : acquainted_) {
        if (one == event.to)
          schedule(arrival(one, other), {.kind = Kind::lost, .to = other, .from = one});
      }
      return;
  }
}

void VirtualNetwork::schedule(Time at, Event event) {
  events_.emplace(at, std::move(event));
}

Time VirtualNetwork::delay() {
  const auto span = static_cast<double>((faults_.most_delay - faults_.least_delay).count());
  return faults_.least_delay + Time(static_cast<Time::rep>(numbers_.unit() * span));
}

// Without overtaking nothing arrives before what the same machine sent earlier.
Time VirtualNetwork::arrival(int from, int to) {
  Time& last = last_arrival_[{from, to}];
  const Time drawn = now_ + delay();
  if (faults_.overtaking) return drawn;
  last = std::max(last, drawn);
  return last;
}

void VirtualNetwork::send(int from, const Send& send) {
  if (parted_.contains({from, send.to})) return;  // the connection has ended
  acquainted_.insert({from, send.to});
  acquainted_.insert({send.to, from});
  if (draw(faults_.loss)) return;
  const Event event = {.kind = Kind::message, .to = send.to, .from = from, .message = send.message};
  schedule(arrival(from, send.to), event);
  if (draw(faults_.duplication)) schedule(arrival(from, send.to), event);
}

void VirtualNetwork::arm(int address, const Arm& arm) {
  const std::uint64_t arming = ++armings_[{address, arm.timer}];
  schedule(std::max(now_, arm.at),
           {.kind = Kind::timer, .to = address, .timer = arm.timer, .arming = arming});
}

void VirtualNetwork::part(int from, int to) {
  parted_.insert({from, to});
  schedule(arrival(from, to), {.kind = Kind::lost, .to = to, .from = from});
}

}  // namespace paceline::machine
