// VectorMember: all that a worker of a full-batch L-BFGS does: it computes portions, and on the
// coordinator's rank it leads the iterations too. It is the Machine that a MachineRun or a virtual
// network runs.
#pragma once

#include <functional>
#include <mutex>
#include <optional>
#include <utility>

#include "paceline/core/machine/machine.h"
#include "paceline/core/server/vectors/lbfgs_coordinator.h"
#include "paceline/core/server/vectors/portion_worker.h"

namespace paceline::server {

// THREAD: the on_... methods on the driver; do_work() and look() on any, a mutex guards the state.
class VectorMember final : public machine::Machine {
 public:
  // The shape must outlive it.
  VectorMember(const VectorShape& shape, int member, const LbfgsOptions& options);

  // A message from the member itself with this kind carries out what was put with do_work().
  static constexpr std::uint32_t kWork = UINT32_MAX;
  using Work = std::function<machine::Actions(PortionWorker&)>;
  void do_work(Work work);

  // Calls `look` with the worker, of which nothing may be kept.
  template <typename Look>
  auto look(const Look& look) {
    const std::lock_guard lock(mutex_);
    return look(worker_);
  }
  const std::optional<LbfgsCoordinator>& coordinator() const { return coordinator_; }
  coordination::Awaited awaited() const;
  // Why a packet was refused, or a member that it needs is lost.
  std::optional<Failure> failure() const;

  machine::Actions on_message(int from, const machine::Message& message,
                              machine::Time now) override;
  machine::Actions on_timer(std::uint32_t, machine::Time) override { return {}; }
  machine::Actions on_lost(int peer, machine::Time now) override;

 private:
  VectorLimits limits_of(int from) const;

  const VectorShape& shape_;
  const int member_;
  mutable std::mutex mutex_;  // guards all that follows
  PortionWorker worker_;
  std::optional<LbfgsCoordinator> coordinator_;  // of the first worker
  std::vector<Work> works_;
  std::optional<Failure> failure_;
  bool coordinator_is_lost_ = false;
};

}  // namespace paceline::server
