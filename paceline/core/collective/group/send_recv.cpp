// Sends and recvs, of which those whose buffers lie in a device's memory are staged. What else
// befalls them is the affair of carrier/point_to_point.h.
#include <fmt/format.h>

#include <utility>

#include "paceline/core/base/check.h"
#include "paceline/core/collective/call/arguments.h"
#include "paceline/core/collective/call/work_state.h"
#include "paceline/core/collective/group/communicator.h"
#include "paceline/core/collective/group/communicator_impl.h"
#include "paceline/core/collective/group/group.h"
#include "paceline/core/collective/staging/staged_call.h"

namespace paceline {

using collective::check_host_memory;
using collective::check_memory;
using collective::Group;
using collective::StagedCall;

// --- on the caller's thread ----------------------------------------------------------------------

collective::PointToPoint::Transfer Communicator::Impl::transfer(
    std::string_view what, ConstBuffer buffer, int peer, const PointToPointOptions& options) {
  check_host_memory(buffer, what);
  return {.peer = peer,
          .tag = options.tag,
          .deadline = Deadline::in(options.within.count() > 0 ? options.within : timeout),
          .work = group->new_work(
              fmt::format("{} {}[{}] {}", what, name_of(buffer.dtype), buffer.count,
                          peer == kAnyRank ? "from any rank" : fmt::format("with rank {}", peer))),
          .tells_stalls = options.tells_stalls};
}

// No engine carries sends.
bool Communicator::Impl::is_staged(ConstBuffer sent) const {
  return devices && (all_on_device || sent.memory.kind != Memory::Kind::host);
}

std::shared_ptr<StagedCall> Communicator::Impl::staged_send(ConstBuffer data) {
  check_memory(data, "send");
  const Buffer none{nullptr, 0, data.dtype, data.memory};
  auto call = std::make_shared<StagedCall>(
      staging_area(all_on_device ? 0 : data.memory.device),
      collective::DeviceBuffers{.input = data, .output = none, .takes_output = false});
  call->stage();
  return call;
}

std::shared_ptr<StagedCall> Communicator::Impl::staged_recv(Buffer into) {
  check_memory(into, "recv");
  const ConstBuffer none{nullptr, 0, into.dtype, into.memory};
  auto call = std::make_shared<StagedCall>(
      staging_area(all_on_device ? 0 : into.memory.device),
      collective::DeviceBuffers{.input = none, .output = into, .brings_input = false});
  call->stage();
  return call;
}

Work Communicator::send(ConstBuffer data, int to, const PointToPointOptions& options) {
  PACELINE_CHECK(to >= 0 && to < size(), "send: rank {} is not in 0..{}", to, size() - 1);
  const auto staged = impl_->is_staged(data) ? impl_->staged_send(data) : nullptr;
  const ConstBuffer source = staged ? staged->input() : data;
  auto transfer = impl_->transfer("send", source, to, options);
  transfer.source = source;
  if (staged) collective::let_order(*transfer.work, staged);
  Work work(transfer.work);
  if (staged) Group::submit_send(impl_->group, std::move(transfer), staged);
  else Group::submit_send(impl_->group, std::move(transfer));
  return work;
}

Work Communicator::recv(Buffer into, int from, const PointToPointOptions& options) {
  PACELINE_CHECK(from == kAnyRank || (from >= 0 && from < size()),
                 "recv: rank {} is not in 0..{}, nor kAnyRank", from, size() - 1);
  const auto staged = impl_->is_staged(into) ? impl_->staged_recv(into) : nullptr;
  const Buffer target = staged ? staged->output() : into;
  auto transfer = impl_->transfer("recv", target, from, options);
  transfer.target = target;
  if (staged) collective::let_order(*transfer.work, staged);
  Work work(transfer.work);
  if (staged) Group::submit_recv(impl_->group, std::move(transfer), staged);
  else Group::submit_recv(impl_->group, std::move(transfer));
  return work;
}

}  // namespace paceline

namespace paceline::collective {

// --- on the driver -------------------------------------------------------------------------------

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
  staged_.await(call, StagedCall::Moment::input, *transfer.work, transfer.deadline);
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
