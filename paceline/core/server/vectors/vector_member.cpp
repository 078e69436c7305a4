#include "paceline/core/server/vectors/vector_member.h"

#include <fmt/format.h>

#include <algorithm>

namespace paceline::server {

using machine::Actions;

VectorMember::VectorMember(const VectorShape& shape, int member, const LbfgsOptions& options)
    : shape_(shape), member_(member), worker_(shape) {
  if (member == shape.coordinator()) coordinator_.emplace(shape, options);
}

void VectorMember::do_work(Work work) {
  const std::lock_guard lock(mutex_);
  works_.push_back(std::move(work));
}

coordination::Awaited VectorMember::awaited() const {
  const std::lock_guard lock(mutex_);
  if (coordinator_) return coordinator_->awaited();
  coordination::Awaited those;
  those.lacks(shape_.coordinator(), fmt::format("ended iteration {}", worker_.iteration()));
  return those;
}

std::optional<Failure> VectorMember::failure() const {
  const std::lock_guard lock(mutex_);
  if (failure_ || !coordinator_is_lost_ || !worker_.needs_coordinator()) return failure_;
  const int leader = shape_.coordinator();
  return Failure{Fault::peer_lost,
                 fmt::format("rank {}, which leads the iterations, has ended its part", leader),
                 {leader}};
}

VectorLimits VectorMember::limits_of(int from) const {
  const auto server = std::ranges::find(shape_.members.servers, from);
  if (server == shape_.members.servers.end()) return {shape_.vectors(), 0};
  return {shape_.vectors(),
          shape_.shard_bytes(static_cast<std::size_t>(server - shape_.members.servers.begin()))};
}

Actions VectorMember::on_message(int from, const machine::Message& message, machine::Time) {
  const std::lock_guard lock(mutex_);
  if (from == member_ && message.kind == kWork) {
    Actions actions;
    for (const Work& work : std::exchange(works_, {})) append(actions, work(worker_));
    return actions;
  }
  const auto packet = parse_vector_packet(message, limits_of(from));
  if (!packet) {
    const Failure& why = packet.error();
    if (!failure_) failure_ = Failure{why.fault, why.what, {from}};
    return {machine::Drop{from, *failure_}};
  }
  switch (packet.value().kind) {
    case VectorKind::portion:
    case VectorKind::over:
      return from == shape_.coordinator() ? worker_.on_packet(from, packet.value()) : Actions{};
    case VectorKind::values:
    case VectorKind::taken:
    case VectorKind::stored: return worker_.on_packet(from, packet.value());
    default: return coordinator_ ? coordinator_->on_packet(from, packet.value()) : Actions{};
  }
}

Actions VectorMember::on_lost(int peer, machine::Time) {
  const std::lock_guard lock(mutex_);
  const auto& servers = shape_.members.servers;
  if (const auto server = std::ranges::find(servers, peer); server != servers.end() && !failure_)
    failure_ = Failure{Fault::peer_lost,
                       fmt::format("server {} has ended; look at its lines in the run's output",
                                   server - servers.begin()),
                       {peer}};
  coordinator_is_lost_ = coordinator_is_lost_ || peer == shape_.coordinator();
  return coordinator_ ? coordinator_->on_lost(peer) : Actions{};
}

}  // namespace paceline::server
