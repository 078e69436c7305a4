#include "paceline/core/server/sparse/sparse_machine.h"

#include <algorithm>

namespace paceline::server {

using machine::Actions;
using machine::Message;
using machine::Time;

SparseMachine::SparseMachine(const SparseShape& shape, int member,
                             const SparseWorkerOptions& options)
    : shape_(shape), member_(member) {
  const auto& servers = shape.members.servers;
  const auto own = std::ranges::find(servers, member);
  if (own != servers.end()) share_.emplace(shape, static_cast<std::size_t>(own - servers.begin()));
  if (std::ranges::binary_search(shape.members.workers, member))
    worker_.emplace(shape, member, options, 0u);
}

void SparseMachine::do_work(Work work) {
  const std::lock_guard lock(mutex_);
  works_.push_back(std::move(work));
}

bool SparseMachine::serves_members() const {
  const std::lock_guard lock(mutex_);
  return share_ && share_->has_members();
}

std::set<int> SparseMachine::served() const {
  const std::lock_guard lock(mutex_);
  std::set<int> all;
  if (share_)
    for (const auto& [member, clock] : share_->value().clocks()) all.insert(member);
  return all;
}

std::optional<Failure> SparseMachine::failure() const {
  const std::lock_guard lock(mutex_);
  return refused_ || !worker_ ? refused_ : worker_->failure();
}

Actions SparseMachine::on_message(int from, const Message& message, Time now) {
  const std::lock_guard lock(mutex_);
  if (message.kind == kWork) {
    if (from != member_ || works_.empty()) return {};
    const Work work = std::move(works_.front());
    works_.pop_front();
    return work(*worker_, now);
  }
  auto packet = parse_sparse_packet(message, shape_);
  if (!packet) return refuse(from, packet.error());
  if (packet->kind >= SparseKind::begun)
    return worker_ ? worker_->on_packet(from, *packet) : Actions{};
  const bool is_own = share_ && shape_.members.servers[packet->share] == member_;
  return is_own ? share_->on_packet(from, *std::move(packet)) : Actions{};
}

// A member whose bytes make no sense is heard no more.
Actions SparseMachine::refuse(int from, Failure why) {
  why.ranks = {from};
  if (!refused_) refused_ = why;
  Actions actions = {machine::Drop{from, std::move(why)}};
  if (!share_) return actions;
  const Actions more = share_->on_lost(from);
  actions.insert(actions.end(), more.begin(), more.end());
  return actions;
}

Actions SparseMachine::on_timer(std::uint32_t, Time now) {
  const std::lock_guard lock(mutex_);
  return worker_ ? worker_->on_timer(now) : Actions{};
}

Actions SparseMachine::on_lost(int peer, Time) {
  const std::lock_guard lock(mutex_);
  Actions actions;
  if (share_) actions = share_->on_lost(peer);
  if (worker_) std::ignore = worker_->on_lost(peer);
  return actions;
}

}  // namespace paceline::server
