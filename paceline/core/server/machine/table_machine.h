// TableMachine: all that one member does for a table: the ranges that it serves, and its work as a
// worker, either of which may be nothing. It is the Machine that a MachineRun or a virtual network
// runs.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>

#include "paceline/core/machine/machine.h"
#include "paceline/core/server/control/chain_report.h"
#include "paceline/core/server/machine/range_machine.h"
#include "paceline/core/server/machine/worker_machine.h"

namespace paceline::server {

// It reads the shape, which must outlive it. Where ranges have several replicas it is told of their
// chains by messages from the member itself. THREAD: the on_... methods on the driver; do_work()
// and read() on any, a mutex guards the state.
class TableMachine final : public machine::Machine {
 public:
  // A newcomer is a worker that the shape does not name. Servers that `resend_after` say again to
  // each other what may be lost.
  // The chains are those of the moment, by default the first ones. A server that is in them then has
  // the first state of its ranges if it is the first, or if they are the first chains: nobody has
  // anything of the table yet that it lacks.
  TableMachine(const TableShape& shape, int member, const WorkerOptions& options = {},
               const std::optional<std::vector<Chain>>& chains = {});

  // A message from the member itself with this kind carries out what was put with do_work().
  static constexpr std::uint32_t kWork = UINT32_MAX;
  // One with this kind brings the chains of the job (table/chain.h) in bytes.
  static constexpr std::uint32_t kChains = UINT32_MAX - 1;
  using Work = std::function<machine::Actions(WorkerMachine&, machine::Time)>;
  void do_work(Work work);

  // Calls `look` with the worker's side; nothing may be kept of it. REQUIRES: is_worker().
  template <typename Look>
  auto read(const Look& look) const {
    const std::lock_guard lock(mutex_);
    return look(std::as_const(*worker_));
  }
  bool is_worker() const { return worker_.has_value(); }
  bool serves_members() const;   // a range that it serves has members
  std::set<int> served() const;  // these
  // Nobody needs this server for the table any more. Where ranges have several replicas, that is
  // when all workers have heard that they have left: the server that answers them may end first.
  bool is_over() const;
  // The ranges that it serves. THREAD: the driver, or when nothing drives it.
  const std::map<std::uint32_t, RangeMachine>& ranges() const { return ranges_; }
  // Servers ask it before each answer to a worker (range_machine.h). Before anything comes.
  void ask_before_answers(const RangeMachine::MayAnswer& may_answer);
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
  machine::Actions configure(Bytes chains, machine::Time now);
  void note_changes();
  std::vector<ChainReport> reports_of_chains() const;
  machine::Actions say_again(machine::Time now);
  machine::Actions refuse(int from, Failure why);

  const TableShape& shape_;
  const int member_;
  const machine::Time resend_after_;
  mutable std::mutex mutex_;  // guards all that follows
  std::vector<Chain> chains_;
  std::set<int> servers_;  // of all chains so far; their end is no worker's
  RangeMachine::MayAnswer may_answer_;
  std::map<std::uint32_t, RangeMachine> ranges_;  // range i has timer i + 1
  std::optional<WorkerMachine> worker_;
  std::deque<Work> works_;
  std::set<int> done_;  // workers that need nothing more of any server
  std::optional<Failure> refused_;
  std::vector<ChainReport> reported_;  // at the last change
  std::atomic<std::uint64_t> changes_ = 0;
};

}  // namespace paceline::server
