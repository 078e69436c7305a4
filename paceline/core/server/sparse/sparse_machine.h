// SparseMachine: all that one member does for a sparse table: the shares that it serves, and its
// work as a worker, either of which may be nothing. It is the Machine that a MachineRun or a
// virtual network runs.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <vector>

#include "paceline/core/machine/machine.h"
#include "paceline/core/server/control/chain_report.h"
#include "paceline/core/server/sparse/share_machine.h"
#include "paceline/core/server/sparse/sparse_worker.h"

namespace paceline::server {

// It reads the shape, which must outlive it. Where shares have several replicas it is told of their
// chains by messages from the member itself. THREAD: the on_... methods on the driver; do_work()
// and look() on any, a mutex guards the state.
class SparseMachine final : public machine::Machine {
 public:
  // The chains are those of the moment, by default the first ones: see TableMachine.
  SparseMachine(const SparseShape& shape, int member, const SparseWorkerOptions& options = {},
                const std::optional<std::vector<Chain>>& chains = {});

  // A message from the member itself with this kind carries out what was put with do_work().
  static constexpr std::uint32_t kWork = UINT32_MAX;
  // One with this kind brings the chains of the job (table/chain.h) in bytes.
  static constexpr std::uint32_t kChains = UINT32_MAX - 1;
  using Work = std::function<machine::Actions(SparseWorker&, machine::Time)>;
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
  bool serves_members() const;   // a share that it serves has members
  std::set<int> served() const;  // these
  bool is_over() const;          // see TableMachine
  // The shares that it serves, and the only one of them or null. THREAD: the driver, or when nothing
  // drives it.
  const std::map<std::uint32_t, ShareMachine>& shares() const { return shares_; }
  ShareMachine* share() { return shares_.size() == 1 ? &shares_.begin()->second : nullptr; }
  // Servers ask it before each answer to a worker (share_machine.h). Before anything comes.
  void ask_before_answers(const ShareMachine::MayAnswer& may_answer);
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
  machine::Actions on_packet(int from, SparsePacket packet, machine::Time now);
  machine::Actions on_chain_packet(int from, const machine::Message& message, machine::Time now);
  machine::Actions configure(Bytes chains, machine::Time now);
  std::vector<ChainReport> reports_of_chains() const;
  void note_changes();
  machine::Actions refuse(int from, Failure why);

  const SparseShape& shape_;
  const int member_;
  const machine::Time resend_after_;
  mutable std::mutex mutex_;  // guards all that follows
  std::vector<Chain> chains_;
  std::set<int> servers_;  // of all chains so far; their end is no worker's
  ShareMachine::MayAnswer may_answer_;
  std::map<std::uint32_t, ShareMachine> shares_;
  std::optional<SparseWorker> worker_;
  std::deque<Work> works_;
  std::set<int> done_;  // workers that need nothing more of any server
  std::optional<Failure> refused_;
  std::vector<ChainReport> reported_;  // at the last change
  std::atomic<std::uint64_t> changes_ = 0;
};

}  // namespace paceline::server
