#include "paceline/core/server/machine/table_machine.h"

#include <algorithm>

#include "paceline/core/server/control/chained_parts.h"

namespace paceline::server {

using machine::Actions;
using machine::Message;
using machine::Time;

namespace {

void append(Actions& all, Actions more) {
  all.insert(all.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

}  // namespace

TableMachine::TableMachine(const TableShape& shape, int member, const WorkerOptions& options,
                           const std::optional<std::vector<Chain>>& chains)
    : shape_(shape),
      member_(member),
      resend_after_(options.resend_after),
      chains_(chains.value_or(shape.chains())),
      servers_(shape.members.servers.begin(), shape.members.servers.end()) {
  for (std::uint32_t range = 0; range < shape.ranges.size(); ++range)
    if (const Chain& chain = chains_[shape.chain_of(range)];
        chain.has(member) || chain.joiner == member)
      ranges_.try_emplace(range, shape, range, range + 1, member, chain,
                          chain.generation == 1 || chain.is_head(member));
  if (options.is_newcomer || std::ranges::binary_search(shape.members.workers, member))
    worker_.emplace(shape, member, options, kWorkerTimer);
  note_changes();
}

void TableMachine::ask_before_answers(const RangeMachine::MayAnswer& may_answer) {
  const std::lock_guard lock(mutex_);
  may_answer_ = may_answer;
  for (auto& [number, range] : ranges_) range.ask_before_answers(may_answer);
}

void TableMachine::do_work(Work work) {
  const std::lock_guard lock(mutex_);
  works_.push_back(std::move(work));
}

bool TableMachine::serves_members() const {
  const std::lock_guard lock(mutex_);
  return std::ranges::any_of(ranges_, [](const auto& one) { return one.second.has_members(); });
}

bool TableMachine::is_over() const {
  if (shape_.spec.replicas == 1) return !ranges_.empty() && !serves_members();
  const std::lock_guard lock(mutex_);
  return std::ranges::includes(done_, shape_.members.workers);
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
  if (message.kind == kChains) return from == member_ ? configure(message.payload, now) : Actions{};
  if (is_chain_kind(message.kind)) return on_chain_packet(from, message, now);
  auto packet = parse_packet(
      message, {static_cast<std::uint32_t>(shape_.ranges.size()), shape_.element_bytes()});
  if (!packet) return refuse(from, packet.error());
  return on_packet(from, *std::move(packet), now);
}

Actions TableMachine::on_packet(int from, Packet packet, Time now) {
  if (packet.kind == PacketKind::done) {
    done_.insert(from);
    return {};
  }
  if (packet.kind >= PacketKind::assigned)
    return worker_ ? worker_->on_packet(from, std::move(packet), now) : Actions{};
  const auto range = ranges_.find(packet.range);
  if (range != ranges_.end()) return range->second.on_packet(from, std::move(packet), now);
  if (shape_.spec.replicas == 1) return {};
  return {machine::Send{from, encode({.kind = PacketKind::moved, .range = packet.range})}};
}

Actions TableMachine::on_chain_packet(int from, const Message& message, Time now) {
  auto packet = parse_chain_packet(message, static_cast<std::uint32_t>(shape_.ranges.size()));
  if (!packet) return refuse(from, packet.error());
  const auto range = ranges_.find(packet->range);
  if (range == ranges_.end()) return {};
  auto actions = range->second.on_chain_packet(from, *std::move(packet), now);
  note_changes();
  return actions ? *std::move(actions) : refuse(from, actions.error());
}

Actions TableMachine::configure(Bytes bytes, Time now) {
  auto chains = parse_chains(bytes);
  if (!chains || chains->size() != chains_.size()) return {};
  const auto make = [&](std::uint32_t range) {
    const Chain none{.generation = 0};
    auto& made =
        ranges_.try_emplace(range, shape_, range, range + 1, member_, none, false).first->second;
    made.ask_before_answers(may_answer_);
  };
  Actions actions = configure_parts(
      ranges_, static_cast<std::uint32_t>(shape_.ranges.size()), member_, *chains,
      [this](std::uint32_t range) { return shape_.chain_of(range); }, make, now);
  if (worker_) append(actions, worker_->configure(*chains));
  chains_ = *chains;
  for (const Chain& chain : chains_) {
    servers_.insert(chain.servers.begin(), chain.servers.end());
    if (chain.joiner) servers_.insert(*chain.joiner);
  }
  note_changes();
  return actions;
}

// A member whose bytes make no sense is heard no more.
Actions TableMachine::refuse(int from, Failure why) {
  why.ranks = {from};
  if (!refused_) refused_ = why;
  Actions actions = {machine::Drop{from, std::move(why)}};
  for (auto& [number, range] : ranges_) append(actions, range.on_lost(from, {}));
  return actions;
}

Actions TableMachine::on_timer(std::uint32_t timer, Time now) {
  const std::lock_guard lock(mutex_);
  if (timer == kWorkerTimer) return worker_ ? worker_->on_timer(now) : Actions{};
  if (timer == kServerTimer) return say_again(now);
  const auto range = ranges_.find(timer - 1);
  return range == ranges_.end() ? Actions{} : range->second.on_timer(now);
}

Actions TableMachine::say_again(Time now) {
  Actions actions = {machine::Arm{kServerTimer, now + resend_after_}};
  for (auto& [number, range] : ranges_) append(actions, range.say_again(now));
  return actions;
}

Actions TableMachine::start_server(Time now) {
  const std::lock_guard lock(mutex_);
  return {machine::Arm{kServerTimer, now + resend_after_}};
}

std::vector<ChainReport> TableMachine::reports() const {
  const std::lock_guard lock(mutex_);
  return reports_of_chains();
}

// It is asked after each packet between servers, which come once for each push.
void TableMachine::note_changes() {
  if (shape_.spec.replicas == 1) return;
  std::vector<ChainReport> now = reports_of_chains();
  if (now != reported_) changes_.fetch_add(1, std::memory_order_relaxed);
  reported_ = std::move(now);
}

std::vector<ChainReport> TableMachine::reports_of_chains() const {
  return reports_of_parts(ranges_, member_, chains_,
                          [this](std::uint32_t range) { return shape_.chain_of(range); });
}

Actions TableMachine::on_lost(int peer, Time now) {
  const std::lock_guard lock(mutex_);
  Actions actions;
  const bool works =
      !servers_.contains(peer) || std::ranges::binary_search(shape_.members.workers, peer);
  for (auto& [number, range] : ranges_)
    if (works) append(actions, range.on_lost(peer, now));
  if (works) done_.insert(peer);
  if (worker_) std::ignore = worker_->on_lost(peer);
  return actions;
}

}  // namespace paceline::server
