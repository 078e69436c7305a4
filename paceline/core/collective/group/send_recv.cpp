// Communicator::send and recv.
#include <fmt/format.h>

#include "paceline/core/base/check.h"
#include "paceline/core/collective/call/arguments.h"
#include "paceline/core/collective/group/communicator.h"
#include "paceline/core/collective/group/communicator_impl.h"
#include "paceline/core/collective/staging/staged_call.h"

namespace paceline {

using collective::check_host_memory;
using collective::check_memory;
using collective::Group;
using collective::StagedCall;

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
  return std::make_shared<StagedCall>(
      staging_area(all_on_device ? 0 : data.memory.device),
      collective::DeviceBuffers{.input = data, .output = none, .takes_output = false});
}

std::shared_ptr<StagedCall> Communicator::Impl::staged_recv(Buffer into) {
  check_memory(into, "recv");
  const ConstBuffer none{nullptr, 0, into.dtype, into.memory};
  return std::make_shared<StagedCall>(
      staging_area(all_on_device ? 0 : into.memory.device),
      collective::DeviceBuffers{.input = none, .output = into, .brings_input = false});
}

Work Communicator::send(ConstBuffer data, int to, const PointToPointOptions& options) {
  PACELINE_CHECK(to >= 0 && to < size(), "send: rank {} is not in 0..{}", to, size() - 1);
  const auto staged = impl_->is_staged(data) ? impl_->staged_send(data) : nullptr;
  const ConstBuffer source = staged ? staged->input() : data;
  auto transfer = impl_->transfer("send", source, to, options);
  transfer.source = source;
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
  Work work(transfer.work);
  if (staged) Group::submit_recv(impl_->group, std::move(transfer), staged);
  else Group::submit_recv(impl_->group, std::move(transfer));
  return work;
}

}  // namespace paceline
