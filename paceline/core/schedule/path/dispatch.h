// Dispatch decides which message of a plan goes next. It is a state machine without thread or
// clock: its driver reports which gradients have become ready and which messages are back. All
// ranks hand over in the plan's order, so that their collectives match.
#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <vector>

#include "paceline/core/schedule/order/gradient_plan.h"
#include "paceline/core/schedule/order/model.h"

namespace paceline::schedule {

class Dispatch {
 public:
  // A part of a group: elements [begin, end) of its gradients, concatenated in send order.
  struct Message {
    int group = 0;
    std::size_t begin = 0, end = 0;
  };

  // `element_bytes`: of each group's type; empty: all are f32. THROWS Error (misuse): the plan does
  // not fit the model, or has priorities and no order, or its order does not fit its messages.
  Dispatch(const Model& model, MessagePlan plan, std::vector<std::size_t> element_bytes = {});

  const MessagePlan& plan() const { return plan_; }
  const std::vector<Message>& messages() const { return messages_; }  // in the plan's order
  int group_of(int place) const { return group_of_[static_cast<std::size_t>(place)]; }
  std::size_t elements(int group) const {
    return groups_[static_cast<std::size_t>(group)].elements;
  }
  // The elements of the gradient at `place`, and where they begin within its group.
  std::size_t elements_at(int place) const { return elements_[static_cast<std::size_t>(place)]; }
  std::size_t offset(int place) const { return offset_[static_cast<std::size_t>(place)]; }

  // The gradient at `place` of the send order has become ready. Call it once a step, in any order.
  void ready(int place);
  // The next message, if it is ready. next() also counts it as handed over.
  std::optional<int> following() const;
  std::optional<int> next();
  // A message is back. Returns whether its whole group is now back; with the last group the step is
  // over, and the next one begins.
  bool back(int message);

 private:
  struct State {
    std::size_t elements = 0;
    int tensors = 0, parts = 0;
    int missing = 0, to_come = 0;  // gradients not ready, messages not back
  };

  std::size_t group_of_message(std::size_t message) const {
    return static_cast<std::size_t>(messages_[message].group);
  }
  void add_group(const Model& model, const MessageGroup& group);
  std::size_t begin_of_part(const Model& model, std::size_t group, std::size_t part) const;
  std::vector<int> order() const;
  void begin_step();

  MessagePlan plan_;
  std::vector<std::size_t> element_bytes_;  // by group
  std::vector<Message> messages_;
  std::vector<int> group_of_;                   // by place
  std::vector<std::size_t> offset_, elements_;  // by place
  std::vector<State> groups_;
  std::size_t next_ = 0;      // index of the message to hand over next
  std::size_t returned_ = 0;  // messages that are back
};

// SendingWindow decides which begun messages may use the link. It is a state machine without thread
// or clock.
//
// A few messages keep the link busy; more would share it, and the first would come back later. Only
// short ones, which mostly wait, may be more. Encoded messages are prepared ahead, up to their long
// exchange: the link then waits neither for the encoder nor for short exchanges that queue behind
// long ones in the sockets.
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
