// VirtualNetwork: runs machines in virtual time, with faults that follow from one seed.
//
// Events happen one after the other, each at its time; two runs with the same seed and the same
// machines are equal to the last message (fingerprint()).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include "paceline/core/base/seed.h"
#include "paceline/core/machine/machine.h"

namespace paceline::machine {

struct NetworkFaults {
  Time least_delay = std::chrono::microseconds(10);
  Time most_delay = std::chrono::milliseconds(1);
  double loss = 0;          // the share of messages that never arrive
  double duplication = 0;   // the share that arrive twice
  bool overtaking = false;  // otherwise messages between two machines keep their order
};

// The machines must outlive it. THREAD: one.
class VirtualNetwork {
 public:
  VirtualNetwork(std::uint64_t seed, const NetworkFaults& faults);

  // REQUIRES: the address is free (else misuse).
  void add(int address, Machine& machine);
  // A message from outside of the network, which arrives at once.
  void tell(int address, int from, const Message& message);
  // The machine ends at that time: what it sent before arrives, nothing reaches it any more, and
  // those that have exchanged a message with it hear of its loss.
  void kill(int address, Time at);

  // Runs until nothing is left to happen, or until `until`. Returns how many events happened.
  std::size_t run(Time until = Time::max());

  Time now() const { return now_; }
  std::size_t messages() const { return messages_; }          // that were delivered
  std::uint64_t fingerprint() const { return fingerprint_; }  // of all that has happened

 private:
  enum class Kind : std::uint8_t { message, timer, lost, kill };
  struct Event {
    Kind kind = Kind::message;
    int to = 0;
    int from = 0;
    Message message = {};      // of Kind::message
    std::uint32_t timer = 0;   // of Kind::timer
    std::uint64_t arming = 0;  // of Kind::timer: an older one has been replaced
  };
  class Sender;

  void happen(const Event& event);
  void schedule(Time at, Event event);
  void send(int from, const Send& send);
  void arm(int address, const Arm& arm);
  void part(int from, int to);
  Time delay();
  Time arrival(int from, int to);
  bool draw(double share) { return share > 0 && numbers_.unit() < share; }

  const NetworkFaults faults_;
  SeededNumbers numbers_;
  Time now_ = {};
  std::map<int, Machine*> machines_;
  std::multimap<Time, Event> events_;  // of equal times in the order in which they were scheduled
  std::map<std::pair<int, int>, Time> last_arrival_;                // by sender and receiver
  std::map<std::pair<int, std::uint32_t>, std::uint64_t> armings_;  // by machine and timer
  std::set<std::pair<int, int>> acquainted_;  // have exchanged a message; both orders
  std::set<std::pair<int, int>> parted_;      // the first no longer hears the second
  std::size_t messages_ = 0;
  std::uint64_t fingerprint_ = 0;
};

}  // namespace paceline::machine
