// The door of machine: protocols as pure machines.
//
// A machine is told of messages, timers and lost peers, and answers with actions; it has no clock,
// thread or socket inside. Each machine lives with its method (the store's with membership). The
// same machine runs in two ways: perform() carries its actions out on a Port, which stands on real
// connections, and the VirtualNetwork (virtual_network.h) runs many of them in virtual time with
// delays, overtaking, loss, duplication and kills that follow from one seed. So a fault found under
// a seed is found again by it. Start reading here.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <variant>
#include <vector>

#include "paceline/core/base/result.h"

namespace paceline::machine {

// Since a start that all machines of one driver share.
using Time = std::chrono::nanoseconds;

// The protocol defines the meaning of `kind` and `index`.
struct Message {
  std::uint32_t kind = 0;
  std::uint32_t index = 0;
  std::vector<std::byte> payload = {};
  bool operator==(const Message&) const = default;
};

struct Send {
  int to = 0;
  Message message;
  bool operator==(const Send&) const = default;
};

// on_timer(timer) is called at that time; armed again before, it is called at the later choice
// alone.
struct Arm {
  std::uint32_t timer = 0;
  Time at = {};
  bool operator==(const Arm&) const = default;
};

// Ends the connection to a peer: it hears what was sent before, then that this machine is lost.
struct Drop {
  int peer = 0;
  Failure why;
  bool operator==(const Drop& other) const {
    return peer == other.peer && why.fault == other.why.fault && why.what == other.why.what;
  }
};

using Action = std::variant<Send, Arm, Drop>;
using Actions = std::vector<Action>;
// Puts `more` behind `all`.
void append(Actions& all, Actions more);

// Peers are numbered by the driver. THREAD: one.
class Machine {
 public:
  virtual ~Machine() = default;
  virtual Actions on_message(int from, const Message& message, Time now) = 0;
  virtual Actions on_timer(std::uint32_t timer, Time now) = 0;
  // Nothing comes from the peer any more; not called for a peer that the machine has dropped.
  virtual Actions on_lost(int peer, Time now) = 0;
};

// Port: where the actions of a machine become real, on sockets, on links or in virtual time.
class Port {
 public:
  virtual ~Port() = default;
  virtual void send(int to, const Message& message) = 0;
  virtual void arm(std::uint32_t timer, Time at) = 0;
  virtual void drop(int peer, const Failure& why) = 0;
};

// Carries the actions out in their order.
void perform(const Actions& actions, Port& port);

}  // namespace paceline::machine
