// LateSends: the sends of a group that PointToPoint has not been given yet. The input of one is on
// its way from a device to the host; those to the same rank that were called after it stand behind
// it, because the messages of one rank to another arrive in the order of their calls.
//
// THREAD: reactor's driver only.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "paceline/core/collective/carrier/point_to_point.h"
#include "paceline/core/collective/staging/staged_call.h"

namespace paceline::collective {

class LateSends {
 public:
  bool empty() const { return by_peer_.empty(); }
  bool has_any_to(int peer) const { return by_peer_.contains(peer); }
  // `call`: brings the input; null: it lies on the host.
  void add(PointToPoint::Transfer send, std::shared_ptr<StagedCall> call);
  // Takes out those whose turn has come, those to one rank in their order.
  std::vector<PointToPoint::Transfer> take_ready();

  Deadline next_deadline() const;
  // One that stands behind another and whose deadline has passed.
  std::optional<Failure> overdue(Clock::time_point now) const;
  // Ends all works with `why`.
  void failed(const Failure& why);

 private:
  struct Late {
    PointToPoint::Transfer send;
    std::shared_ptr<StagedCall> call;
  };
  std::map<int, std::deque<Late>> by_peer_;  // without empty ones
};

}  // namespace paceline::collective
