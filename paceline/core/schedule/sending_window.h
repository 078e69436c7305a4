// SendingWindow: which of the messages that have begun may use the link. A state machine without
// thread or clock.
//
// Two messages keep the link busy; more would share it, and the first would come back later. Only
// short ones, which mostly wait, go in numbers. What is encoded is prepared ahead, up to the
// exchange that takes long: then the link does not wait for the encoder, nor for short exchanges
// that stand behind long ones in the sockets.
#pragma once

#include <cstddef>
#include <deque>

namespace paceline::schedule {

class SendingWindow {
 public:
  // Whether one more message may be sent, or prepared for it.
  bool may_send() const { return admits(messages_.size(), 0); }
  bool may_prepare() const { return admits(messages_.size(), kPrepared); }

  // Messages begin in the order of the plan, on all ranks, and are admitted in it: so the first of
  // those that are not over is under way everywhere, whatever has been prepared where.
  void begin(int message, std::size_t bytes);
  // It has fewer bytes to exchange than it had gradients.
  void shorten(int message, std::size_t bytes);
  // REQUIRES: it has begun.
  bool may_transfer(int message) const;
  // Its last exchange is over.
  void end(int message);

 private:
  static constexpr std::size_t kSent = 2, kPrepared = 4;
  static constexpr std::size_t kShortBytes = 1 << 20;

  struct Message {
    int number = 0;
    std::size_t bytes = 0;
  };
  std::size_t position(int message) const;
  // With so many before it, of which some may be prepared only.
  bool admits(std::size_t earlier, std::size_t prepared) const;

  std::deque<Message> messages_;
};

}  // namespace paceline::schedule
