// SendingWindow decides which begun messages may use the link. It is a state machine without thread
// or clock.
//
// A few messages keep the link busy; more would share it, and the first would come back later. Only
// short ones, which mostly wait, may be more. Encoded messages are prepared ahead, up to their long
// exchange: the link then waits neither for the encoder nor for short exchanges that queue behind
// long ones in the sockets.
#pragma once

#include <cstddef>
#include <deque>

namespace paceline::schedule {

class SendingWindow {
 public:
  // How many messages keep the link busy. Through servers it takes more: while one is pushed,
  // others wait there for the other workers, or are pulled.
  static constexpr std::size_t kAmongRanks = 2, kThroughServers = 8;
  explicit SendingWindow(std::size_t sent = kAmongRanks) : sent_(sent) {}

  // Tells whether one more message may be sent, or prepared for sending.
  bool may_send() const { return admits(messages_.size(), 0); }
  bool may_prepare() const { return admits(messages_.size(), kPrepared); }

  // Messages begin in the plan's order, on all ranks, and are admitted in that order. So the first
  // unfinished message is under way on every rank, whichever others a rank has prepared.
  void begin(int message, std::size_t bytes);
  // The message exchanges fewer bytes than its gradients had.
  void shorten(int message, std::size_t bytes);
  // REQUIRES: the message has begun.
  bool may_transfer(int message) const;
  // Ends a message, whose last exchange is over.
  void end(int message);

 private:
  static constexpr std::size_t kPrepared = 4;
  static constexpr std::size_t kShortBytes = 1 << 20;

  struct Message {
    int number = 0;
    std::size_t bytes = 0;
  };
  std::size_t position(int message) const;
  // Tells whether a message with `earlier` ones before it is admitted if `prepared` of those are
  // only prepared.
  bool admits(std::size_t earlier, std::size_t prepared) const;

  const std::size_t sent_;
  std::deque<Message> messages_;
};

}  // namespace paceline::schedule
