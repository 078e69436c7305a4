// Dispatch: which message of a plan goes next (specification D1, D4). A state machine without
// thread or clock: who drives it tells what has become ready and what is back.
//
// Groups without a priority go in the order of the plan, so that all ranks hand over alike by
// themselves. Groups with one go by it among those that are ready, which differs from rank to rank:
// then one rank chooses, and the others follow.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "paceline/core/schedule/model.h"
#include "paceline/core/schedule/plan.h"

namespace paceline::schedule {

class Dispatch {
 public:
  // A part of a group: elements [begin, end) of its gradients, one after the other in send order.
  struct Message {
    int group = 0;
    std::size_t begin = 0, end = 0;
  };

  // Gradients are of f32. THROWS Error (misuse): a plan that does not fit the model.
  Dispatch(const Model& model, Plan plan);

  const Plan& plan() const { return plan_; }
  const std::vector<Message>& messages() const { return messages_; }
  int group_of(int place) const { return group_of_[static_cast<std::size_t>(place)]; }
  std::size_t elements(int group) const {
    return groups_[static_cast<std::size_t>(group)].elements;
  }
  // Of the group's gradients, where that of `place` begins.
  std::size_t offset(int place) const { return offset_[static_cast<std::size_t>(place)]; }
  bool has_priorities() const { return has_priorities_; }

  // The gradient at `place` of the send order is there. Once a step, in any order.
  void ready(int place);
  // The most urgent message that is ready, if the window has room: handed over from now on.
  std::optional<int> next();
  // What another rank has chosen. REQUIRES: it is ready, and was not handed over in this step.
  void follow(int message);
  bool is_ready(int message) const;
  // A message is back. Returns whether with it its whole group is; with the last group the step is
  // over, and all begins anew.
  bool back(int message);

  bool is_between_steps() const { return handed_over_ == 0 && ready_gradients_ == 0; }
  int handed_over() const { return handed_over_; }  // messages of this step

 private:
  struct State {
    std::size_t elements = 0;
    int first_message = 0, parts = 0;
    int missing = 0;  // gradients
    int sent = 0, returned = 0;
  };

  State& state(int group) { return groups_[static_cast<std::size_t>(group)]; }
  std::optional<int> most_urgent() const;
  std::ptrdiff_t bytes_of(int message) const;
  void begin_step();

  Plan plan_;
  bool has_priorities_ = false;
  std::vector<Message> messages_;
  std::vector<int> group_of_;
  std::vector<std::size_t> offset_;
  std::vector<State> groups_;
  std::ptrdiff_t credit_ = 0;
  int ready_gradients_ = 0, handed_over_ = 0, returned_ = 0;
};

}  // namespace paceline::schedule
