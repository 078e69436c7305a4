#include "paceline/core/server/machine/table_machine.h"

#include <algorithm>

namespace paceline::server {

using machine::Actions;
using machine::Message;
using machine::Time;

TableMachine::TableMachine(const TableShape& shape, int member, const WorkerOptions& options)
    : shape_(shape), member_(member) {
  for (std::uint32_t range = 0; range < shape.ranges.size(); ++range)
    if (shape.server_of(range) == member) ranges_.try_emplace(range, shape, range, range + 1);
  if (options.is_newcomer || std::ranges::binary_search(shape.members.workers, member))
    worker_.emplace(shape, member, options, kWorkerTimer);
}

void TableMachine::do_work(Work work) {
  const std::lock_guard lock(mutex_);
  works_.push_back(std::move(work));
}

bool TableMachine::serves_members() const {
  const std::lock_guard lock(mutex_);
  return std::ranges::any_of(ranges_, [](const auto& one) { return one.second.has_members(); });
}

std::set<int> TableMachine::served() const {
  const std::lock_guard lock(mutex_);
  std::set<int> all;
  for (const auto& [number, range] : ranges_)
    for (const auto& [member, clock] : range.value().clocks()) all.insert(member);
  return all;
}

std::optional<Failure> TableMachine::failure() const {
  const std::lock_guard lock(mutex_);
  return refused_ || !worker_ ? refused_ : worker_->failure();
}

Actions TableMachine::on_message(int from, const Message& message, Time now) {
  const std::lock_guard lock(mutex_);
  if (message.kind == kWork) {
    if (from != member_ || works_.empty()) return {};
    const Work work = std::move(works_.front());
    works_.pop_front();
    return work(*worker_, now);
  }
  auto packet = parse_packet(
      message, {static_cast<std::uint32_t>(shape_.ranges.size()), shape_.element_bytes()});
  if (!packet) return refuse(from, packet.error());
  return on_packet(from, *std::move(packet), now);
}

Actions TableMachine::on_packet(int from, Packet packet, Time now) {
  if (packet.kind >= PacketKind::assigned)
    return worker_ ? worker_->on_packet(from, std::move(packet), now) : Actions{};
  const auto range = ranges_.find(packet.range);
  return range == ranges_.end() ? Actions{} : range->second.on_packet(from, std::move(packet), now);
}

// A member whose bytes make no sense is heard no more.
Actions TableMachine::refuse(int from, Failure why) {
  why.ranks = {from};
  if (!refused_) refused_ = why;
  Actions actions = {machine::Drop{from, std::move(why)}};
  for (auto& [number, range] : ranges_) {
    const Actions more = range.on_lost(from, {});
    actions.insert(actions.end(), more.begin(), more.end());
  }
  return actions;
}

Actions TableMachine::on_timer(std::uint32_t timer, Time now) {
  const std::lock_guard lock(mutex_);
  if (timer == kWorkerTimer) return worker_ ? worker_->on_timer(now) : Actions{};
  const auto range = ranges_.find(timer - 1);
  return range == ranges_.end() ? Actions{} : range->second.on_timer(now);
}

Actions TableMachine::on_lost(int peer, Time now) {
  const std::lock_guard lock(mutex_);
  Actions actions;
  for (auto& [number, range] : ranges_) {
    const Actions more = range.on_lost(peer, now);
    actions.insert(actions.end(), more.begin(), more.end());
  }
  if (worker_) std::ignore = worker_->on_lost(peer);
  return actions;
}

}  // namespace paceline::server
