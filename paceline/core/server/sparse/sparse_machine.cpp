#include "paceline/core/server/sparse/sparse_machine.h"

#include <algorithm>
#include <iterator>

#include "paceline/core/server/control/chained_parts.h"

namespace paceline::server {

using machine::Actions;
using machine::Message;
using machine::Time;

namespace {

void append_to(Actions& all, Actions more) {
  all.insert(all.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

}  // namespace

SparseMachine::SparseMachine(const SparseShape& shape, int member,
                             const SparseWorkerOptions& options,
                             const std::optional<std::vector<Chain>>& chains)
    : shape_(shape),
      member_(member),
      resend_after_(options.resend_after),
      chains_(chains.value_or(shape.chains())),
      servers_(shape.members.servers.begin(), shape.members.servers.end()) {
  for (std::uint32_t share = 0; share < shape.servers(); ++share)
    if (const Chain& chain = chains_[shape.chain_of(share)];
        chain.has(member) || chain.joiner == member)
      shares_.try_emplace(share, shape, share, member, chain,
                          chain.generation == 1 || chain.is_head(member));
  if (std::ranges::binary_search(shape.members.workers, member))
    worker_.emplace(shape, member, options, kWorkerTimer);
  note_changes();
}

void SparseMachine::do_work(Work work) {
  const std::lock_guard lock(mutex_);
  works_.push_back(std::move(work));
}

void SparseMachine::ask_before_answers(const ShareMachine::MayAnswer& may_answer) {
  const std::lock_guard lock(mutex_);
  may_answer_ = may_answer;
  for (auto& [number, share] : shares_) share.ask_before_answers(may_answer);
}

bool SparseMachine::serves_members() const {
  const std::lock_guard lock(mutex_);
  return std::ranges::any_of(shares_, [](const auto& one) { return one.second.has_members(); });
}

bool SparseMachine::is_over() const {
  if (shape_.spec.replicas == 1) return !shares_.empty() && !serves_members();
  const std::lock_guard lock(mutex_);
  return std::ranges::includes(done_, shape_.members.workers);
}

std::set<int> SparseMachine::served() const {
  const std::lock_guard lock(mutex_);
  std::set<int> all;
  for (const auto& [number, share] : shares_)
    for (const auto& [member, clock] : share.value().clocks()) all.insert(member);
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
  if (message.kind == kChains) return from == member_ ? configure(message.payload, now) : Actions{};
  if (is_chain_kind(message.kind)) return on_chain_packet(from, message, now);
  auto packet = parse_sparse_packet(message, shape_);
  if (!packet) return refuse(from, packet.error());
  return on_packet(from, *std::move(packet), now);
}

Actions SparseMachine::on_packet(int from, SparsePacket packet, Time now) {
  if (packet.kind == SparseKind::done) {
    done_.insert(from);
    return {};
  }
  if (packet.kind >= SparseKind::begun)
    return worker_ ? worker_->on_packet(from, packet, now) : Actions{};
  const auto share = shares_.find(packet.share);
  if (share != shares_.end()) return share->second.on_packet(from, std::move(packet), now);
  if (shape_.spec.replicas == 1) return {};
  return {machine::Send{from, encode({.kind = SparseKind::moved, .share = packet.share})}};
}

Actions SparseMachine::on_chain_packet(int from, const Message& message, Time now) {
  auto packet =
      parse_chain_packet_of<ShareChange>(message, static_cast<std::uint32_t>(shape_.servers()));
  if (!packet) return refuse(from, packet.error());
  const auto share = shares_.find(packet->range);
  if (share == shares_.end()) return {};
  auto actions = share->second.on_chain_packet(from, *std::move(packet), now);
  note_changes();
  return actions ? *std::move(actions) : refuse(from, actions.error());
}

Actions SparseMachine::configure(Bytes bytes, Time now) {
  auto chains = parse_chains(bytes);
  if (!chains || chains->size() != chains_.size()) return {};
  const auto make = [&](std::uint32_t share) {
    const Chain none{.generation = 0};
    auto& made = shares_.try_emplace(share, shape_, share, member_, none, false).first->second;
    made.ask_before_answers(may_answer_);
  };
  Actions actions = configure_parts(
      shares_, static_cast<std::uint32_t>(shape_.servers()), member_, *chains,
      [this](std::uint32_t share) { return shape_.chain_of(share); }, make, now);
  if (worker_) append_to(actions, worker_->configure(*chains));
  chains_ = *chains;
  for (const Chain& chain : chains_) {
    servers_.insert(chain.servers.begin(), chain.servers.end());
    if (chain.joiner) servers_.insert(*chain.joiner);
  }
  note_changes();
  return actions;
}

// A member whose bytes make no sense is heard no more.
Actions SparseMachine::refuse(int from, Failure why) {
  why.ranks = {from};
  if (!refused_) refused_ = why;
  Actions actions = {machine::Drop{from, std::move(why)}};
  for (auto& [number, share] : shares_) append_to(actions, share.on_lost(from, {}));
  return actions;
}

Actions SparseMachine::on_timer(std::uint32_t timer, Time now) {
  const std::lock_guard lock(mutex_);
  if (timer != kServerTimer) return worker_ ? worker_->on_timer(now) : Actions{};
  Actions actions = {machine::Arm{kServerTimer, now + resend_after_}};
  for (auto& [number, share] : shares_) append_to(actions, share.say_again(now));
  return actions;
}

Actions SparseMachine::start_server(Time now) {
  const std::lock_guard lock(mutex_);
  return {machine::Arm{kServerTimer, now + resend_after_}};
}

std::vector<ChainReport> SparseMachine::reports() const {
  const std::lock_guard lock(mutex_);
  return reports_of_chains();
}

std::vector<ChainReport> SparseMachine::reports_of_chains() const {
  return reports_of_parts(shares_, member_, chains_,
                          [this](std::uint32_t share) { return shape_.chain_of(share); });
}

void SparseMachine::note_changes() {
  if (shape_.spec.replicas == 1) return;
  std::vector<ChainReport> now = reports_of_chains();
  if (now != reported_) changes_.fetch_add(1, std::memory_order_relaxed);
  reported_ = std::move(now);
}

Actions SparseMachine::on_lost(int peer, Time now) {
  const std::lock_guard lock(mutex_);
  Actions actions;
  const bool works =
      !servers_.contains(peer) || std::ranges::binary_search(shape_.members.workers, peer);
  for (auto& [number, share] : shares_)
    if (works) append_to(actions, share.on_lost(peer, now));
  if (works) done_.insert(peer);
  if (worker_) std::ignore = worker_->on_lost(peer);
  return actions;
}

}  // namespace paceline::server
