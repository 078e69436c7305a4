// MemberMachine: all that one member does for a table: the parts that it serves, and its work as a
// worker, either of which may be nothing. It is the Machine that a MachineRun or a virtual network
// runs.
//
// Parts are ranges of a table of numbers, or shares of a sparse one. `Kind` says which
// (TableParts of machine/table_machine.h, SparseParts of sparse/sparse_machine.h): it names the
// types, and says how a part is made and its packets are read.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "paceline/core/machine/machine.h"
#include "paceline/core/server/control/chain_report.h"
#include "paceline/core/server/table/chain.h"
#include "paceline/core/server/wire/chain_packet.h"

namespace paceline::server {

// It reads the shape, which must outlive it. Where parts have several replicas it is told of their
// chains by messages from the member itself. THREAD: the on_... methods on the driver; do_work()
// and look() on any, a mutex guards the state.
template <typename Kind>
class MemberMachine final : public machine::Machine {
 public:
  using Shape = typename Kind::Shape;
  using Part = typename Kind::Part;
  using Worker = typename Kind::Worker;
  using Options = typename Kind::Options;
  using Packet = typename Kind::Packet;
  using Parts = std::map<std::uint32_t, Part>;
  static constexpr std::string_view kName = Kind::kName;  // of such a table, in texts

  // With `resend_after` the servers say again to each other what may be lost.
  // The chains are those of the moment, by default the first ones. A server that is in them then has
  // the first state of its parts if it is the first, or if they are the first chains: nobody has
  // anything of the table yet that it lacks.
  MemberMachine(const Shape& shape, int member, const Options& options = {},
                const std::optional<std::vector<Chain>>& chains = {});

  // A message from the member itself with this kind carries out what was put with do_work().
  static constexpr std::uint32_t kWork = UINT32_MAX;
  // One with this kind brings the chains of the job (table/chain.h) in bytes.
  static constexpr std::uint32_t kChains = UINT32_MAX - 1;
  using Work = std::function<machine::Actions(Worker&, machine::Time)>;
  void do_work(Work work);

  // Calls `look` with the worker's side; nothing may be kept of it. REQUIRES: is_worker().
  template <typename Look>
  auto look(const Look& look) {
    const std::lock_guard lock(mutex_);
    return look(*worker_);
  }
  template <typename Look>
  auto look(const Look& look) const {
    const std::lock_guard lock(mutex_);
    return look(std::as_const(*worker_));
  }
  bool is_worker() const { return worker_.has_value(); }
  bool serves_members() const;   // a part that it serves has members
  std::set<int> served() const;  // these
  // Nobody needs this server for the table any more. Where parts have several replicas, that is
  // when all workers have heard that they have left: the server that answers them may end first.
  bool is_over() const;
  // The parts that it serves, by number. THREAD: the driver, or when nothing drives it.
  const Parts& parts() const { return parts_; }
  Parts& parts() { return parts_; }
  // Servers ask it before each answer to a worker (see the part). Before anything comes.
  void ask_before_answers(const typename Part::MayAnswer& may_answer);
  // A server begins to say again what may be lost. REQUIRES: resend_after.
  machine::Actions start_server(machine::Time now);
  // This server has these to say of the chains that it is in. The number grows when they may have
  // changed. THREAD: any.
  std::vector<ChainReport> reports() const;
  std::uint64_t changes() const { return changes_.load(std::memory_order_relaxed); }
  // Why a packet was refused or a server lost.
  std::optional<Failure> failure() const;

  machine::Actions on_message(int from, const machine::Message& message,
                              machine::Time now) override;
  machine::Actions on_timer(std::uint32_t timer, machine::Time now) override;
  machine::Actions on_lost(int peer, machine::Time now) override;

 private:
  static constexpr std::uint32_t kWorkerTimer = 0, kServerTimer = UINT32_MAX;
  machine::Actions on_packet(int from, Packet packet, machine::Time now);
  machine::Actions on_chain_packet(int from, const machine::Message& message, machine::Time now);
  machine::Actions configure(Bytes bytes, machine::Time now);
  machine::Actions configure_parts(const std::vector<Chain>& chains, machine::Time now);
  std::vector<ChainReport> reports_of_chains() const;
  void note_changes();
  machine::Actions say_again(machine::Time now);
  machine::Actions refuse(int from, Failure why);

  const Shape& shape_;
  const int member_;
  const machine::Time resend_after_;
  mutable std::mutex mutex_;  // guards all that follows
  std::vector<Chain> chains_;
  std::set<int> servers_;  // of all chains so far; their end is no worker's
  typename Part::MayAnswer may_answer_;
  Parts parts_;
  std::optional<Worker> worker_;
  std::deque<Work> works_;
  std::set<int> done_;  // workers that need nothing more of any server
  std::optional<Failure> refused_;
  std::vector<ChainReport> reported_;  // at the last change
  std::atomic<std::uint64_t> changes_ = 0;
};

template <typename Kind>
MemberMachine<Kind>::MemberMachine(const Shape& shape, int member, const Options& options,
                                   const std::optional<std::vector<Chain>>& chains)
    : shape_(shape),
      member_(member),
      resend_after_(options.resend_after),
      chains_(chains.value_or(shape.chains())),
      servers_(shape.members.servers.begin(), shape.members.servers.end()) {
  for (std::uint32_t part = 0; part < Kind::count(shape); ++part)
    if (const Chain& chain = chains_[shape.chain_of(part)];
        chain.has(member) || chain.joiner == member)
      parts_.try_emplace(part, Kind::make(shape, part, member, chain,
                                          chain.generation == 1 || chain.is_head(member)));
  if (Kind::has_worker(shape, member, options))
    worker_.emplace(shape, member, options, kWorkerTimer);
  note_changes();
}

template <typename Kind>
void MemberMachine<Kind>::ask_before_answers(const typename Part::MayAnswer& may_answer) {
  const std::lock_guard lock(mutex_);
  may_answer_ = may_answer;
  for (auto& [number, part] : parts_) part.ask_before_answers(may_answer);
}

template <typename Kind>
void MemberMachine<Kind>::do_work(Work work) {
  const std::lock_guard lock(mutex_);
  works_.push_back(std::move(work));
}

template <typename Kind>
bool MemberMachine<Kind>::serves_members() const {
  const std::lock_guard lock(mutex_);
  return std::ranges::any_of(parts_, [](const auto& one) { return one.second.has_members(); });
}

template <typename Kind>
bool MemberMachine<Kind>::is_over() const {
  if (shape_.spec.replicas == 1) return !parts_.empty() && !serves_members();
  const std::lock_guard lock(mutex_);
  return std::ranges::includes(done_, shape_.members.workers);
}

template <typename Kind>
std::set<int> MemberMachine<Kind>::served() const {
  const std::lock_guard lock(mutex_);
  std::set<int> all;
  for (const auto& [number, part] : parts_)
    for (const auto& [member, clock] : part.value().clocks()) all.insert(member);
  return all;
}

template <typename Kind>
std::optional<Failure> MemberMachine<Kind>::failure() const {
  const std::lock_guard lock(mutex_);
  return refused_ || !worker_ ? refused_ : worker_->failure();
}

// --- machine -------------------------------------------------------------------------------------

template <typename Kind>
machine::Actions MemberMachine<Kind>::on_message(int from, const machine::Message& message,
                                                 machine::Time now) {
  const std::lock_guard lock(mutex_);
  if (message.kind == kWork) {
    if (from != member_ || works_.empty()) return {};
    const Work work = std::move(works_.front());
    works_.pop_front();
    return work(*worker_, now);
  }
  if (message.kind == kChains)
    return from == member_ ? configure(message.payload, now) : machine::Actions{};
  if (is_chain_kind(message.kind)) return on_chain_packet(from, message, now);
  auto packet = Kind::parse(message, shape_);
  if (!packet) return refuse(from, packet.error());
  return on_packet(from, *std::move(packet), now);
}

template <typename Kind>
machine::Actions MemberMachine<Kind>::on_packet(int from, Packet packet, machine::Time now) {
  if (packet.kind == Kind::kDone) {
    done_.insert(from);
    return {};
  }
  if (packet.kind >= Kind::kForWorkers)
    return worker_ ? worker_->on_packet(from, std::move(packet), now) : machine::Actions{};
  const std::uint32_t number = Kind::part_of(packet);
  const auto part = parts_.find(number);
  if (part != parts_.end()) return part->second.on_packet(from, std::move(packet), now);
  if (shape_.spec.replicas == 1) return {};
  return {machine::Send{from, Kind::moved(number)}};
}

template <typename Kind>
machine::Actions MemberMachine<Kind>::on_chain_packet(int from, const machine::Message& message,
                                                      machine::Time now) {
  auto packet = parse_chain_packet<typename Kind::Entry>(message, Kind::count(shape_));
  if (!packet) return refuse(from, packet.error());
  const auto part = parts_.find(packet->range);
  if (part == parts_.end()) return {};
  auto actions = part->second.on_chain_packet(from, *std::move(packet), now);
  note_changes();
  return actions ? *std::move(actions) : refuse(from, actions.error());
}

template <typename Kind>
machine::Actions MemberMachine<Kind>::configure(Bytes bytes, machine::Time now) {
  auto chains = parse_chains(bytes);
  if (!chains || chains->size() != chains_.size()) return {};
  machine::Actions actions = configure_parts(*chains, now);
  if (worker_) append(actions, worker_->configure(*chains));
  chains_ = *chains;
  for (const Chain& chain : chains_) {
    servers_.insert(chain.servers.begin(), chain.servers.end());
    if (chain.joiner) servers_.insert(*chain.joiner);
  }
  note_changes();
  return actions;
}

// Makes the parts that are new here, with a chain of generation 0: a server that is new in a chain
// has no state, not even the first one.
template <typename Kind>
machine::Actions MemberMachine<Kind>::configure_parts(const std::vector<Chain>& chains,
                                                      machine::Time now) {
  machine::Actions actions;
  for (std::uint32_t number = 0; number < Kind::count(shape_); ++number) {
    const Chain& chain = chains[shape_.chain_of(number)];
    auto part = parts_.find(number);
    if (part == parts_.end()) {
      if (!chain.has(member_) && chain.joiner != member_) continue;
      part =
          parts_.try_emplace(number, Kind::make(shape_, number, member_, {.generation = 0}, false))
              .first;
      part->second.ask_before_answers(may_answer_);
    }
    append(actions, part->second.configure(chain, now));
  }
  return actions;
}

// A member whose bytes make no sense is heard no more.
template <typename Kind>
machine::Actions MemberMachine<Kind>::refuse(int from, Failure why) {
  why.ranks = {from};
  if (!refused_) refused_ = why;
  machine::Actions actions = {machine::Drop{from, std::move(why)}};
  for (auto& [number, part] : parts_) append(actions, part.on_lost(from, {}));
  return actions;
}

// Parts may have timers: part i has the timer i + 1.
template <typename Kind>
machine::Actions MemberMachine<Kind>::on_timer(std::uint32_t timer, machine::Time now) {
  const std::lock_guard lock(mutex_);
  if (timer == kServerTimer) return say_again(now);
  if constexpr (requires(Part part) { part.on_timer(now); }) {
    const auto part = parts_.find(timer - 1);
    if (timer != kWorkerTimer)
      return part == parts_.end() ? machine::Actions{} : part->second.on_timer(now);
  }
  return worker_ ? worker_->on_timer(now) : machine::Actions{};
}

template <typename Kind>
machine::Actions MemberMachine<Kind>::say_again(machine::Time now) {
  machine::Actions actions = {machine::Arm{kServerTimer, now + resend_after_}};
  for (auto& [number, part] : parts_) append(actions, part.say_again(now));
  return actions;
}

template <typename Kind>
machine::Actions MemberMachine<Kind>::start_server(machine::Time now) {
  const std::lock_guard lock(mutex_);
  return {machine::Arm{kServerTimer, now + resend_after_}};
}

template <typename Kind>
machine::Actions MemberMachine<Kind>::on_lost(int peer, machine::Time now) {
  const std::lock_guard lock(mutex_);
  machine::Actions actions;
  const bool works =
      !servers_.contains(peer) || std::ranges::binary_search(shape_.members.workers, peer);
  for (auto& [number, part] : parts_)
    if (works) append(actions, part.on_lost(peer, now));
  if (works) done_.insert(peer);
  if (worker_) worker_->on_lost(peer);
  return actions;
}

// --- what a server tells of its chains -----------------------------------------------------------

template <typename Kind>
std::vector<ChainReport> MemberMachine<Kind>::reports() const {
  const std::lock_guard lock(mutex_);
  return reports_of_chains();
}

// It is asked after each packet between servers, which come once for each push.
template <typename Kind>
void MemberMachine<Kind>::note_changes() {
  if (shape_.spec.replicas == 1) return;
  std::vector<ChainReport> now = reports_of_chains();
  if (now != reported_) changes_.fetch_add(1, std::memory_order_relaxed);
  reported_ = std::move(now);
}

// The member's place in each chain that it is in. A chain that has no part of this table has nothing
// to wait for here.
template <typename Kind>
std::vector<ChainReport> MemberMachine<Kind>::reports_of_chains() const {
  std::vector<ChainReport> reports;
  for (std::uint32_t i = 0; i < chains_.size(); ++i) {
    if (!chains_[i].has(member_)) continue;
    ChainReport report{i, chains_[i].generation, true, chains_[i].joiner.has_value()};
    for (const auto& [number, part] : parts_) {
      if (shape_.chain_of(number) != i) continue;
      report.is_ready &= part.chain().is_ready();
      report.has_caught_up &= part.chain().joiner_has_caught_up();
    }
    reports.push_back(report);
  }
  return reports;
}

}  // namespace paceline::server
