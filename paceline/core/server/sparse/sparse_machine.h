// SparseMachine: all that one member does for a sparse table: the share that it serves, and its
// work as a worker, either of which may be nothing. It is the Machine that a MachineRun or a
// virtual network runs.
#pragma once

#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <set>

#include "paceline/core/machine/machine.h"
#include "paceline/core/server/sparse/share_machine.h"
#include "paceline/core/server/sparse/sparse_worker.h"

namespace paceline::server {

// It reads the shape, which must outlive it. THREAD: the on_... methods on the driver; do_work()
// and look() on any, a mutex guards the state.
class SparseMachine final : public machine::Machine {
 public:
  SparseMachine(const SparseShape& shape, int member, const SparseWorkerOptions& options = {});

  // A message from the member itself with this kind carries out what was put with do_work().
  static constexpr std::uint32_t kWork = UINT32_MAX;
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
  bool serves_members() const;   // its share has members
  std::set<int> served() const;  // these
  // The share that it serves, or null. THREAD: the driver, or when nothing drives it.
  ShareMachine* share() { return share_ ? &*share_ : nullptr; }
  const ShareMachine* share() const { return share_ ? &*share_ : nullptr; }
  // Why a packet was refused or a server lost.
  std::optional<Failure> failure() const;

  machine::Actions on_message(int from, const machine::Message& message,
                              machine::Time now) override;
  machine::Actions on_timer(std::uint32_t timer, machine::Time now) override;
  machine::Actions on_lost(int peer, machine::Time now) override;

 private:
  machine::Actions refuse(int from, Failure why);

  const SparseShape& shape_;
  const int member_;
  mutable std::mutex mutex_;  // guards all that follows
  std::optional<ShareMachine> share_;
  std::optional<SparseWorker> worker_;
  std::deque<Work> works_;
  std::optional<Failure> refused_;
};

}  // namespace paceline::server
