// The sends and recvs of a group whose buffers lie in a device's memory.
#include <utility>

#include "paceline/core/collective/call/work_state.h"
#include "paceline/core/collective/group/group.h"

namespace paceline::collective {

void Group::submit_send(const std::shared_ptr<Group>& group, PointToPoint::Transfer transfer,
                        std::shared_ptr<StagedCall> call) {
  group->reactor_->post(
      [group, t = std::move(transfer), c = std::move(call)] { group->begin_staged_send(t, c); });
}

void Group::submit_recv(const std::shared_ptr<Group>& group, PointToPoint::Transfer transfer,
                        std::shared_ptr<StagedCall> call) {
  group->reactor_->post(
      [group, t = std::move(transfer), c = std::move(call)] { group->begin_staged_recv(t, c); });
}

// PointToPoint is given it when the input is on the host.
void Group::begin_staged_send(PointToPoint::Transfer transfer, std::shared_ptr<StagedCall> call) {
  transfer.work->detour([call](const std::optional<Failure>& why) {
    if (why) call->settle();
    return false;
  });
  if (const auto failure = generation().failure()) return transfer.work->finish(*failure);
  staged_.await_input(call, *transfer.work, transfer.deadline);
  late_sends_.add(std::move(transfer), std::move(call));
  note_activity();
  arm_timer();
}

// A message arrives on the host, and has still to come to the device.
void Group::begin_staged_recv(PointToPoint::Transfer transfer,
                              const std::shared_ptr<StagedCall>& call) {
  transfer.work->detour([this, call, deadline = transfer.deadline,
                         weak = std::weak_ptr(transfer.work)](const std::optional<Failure>& why) {
    const auto work = weak.lock();
    if (why || !work) {
      call->settle();
      return false;
    }
    staged_.bring_back(call, work, deadline);
    arm_timer();
    return true;
  });
  begin(std::move(transfer), &PointToPoint::recv);
}

void Group::carry_late_sends() {
  for (PointToPoint::Transfer& send : late_sends_.take_ready())
    begin(std::move(send), &PointToPoint::send);
}

}  // namespace paceline::collective
