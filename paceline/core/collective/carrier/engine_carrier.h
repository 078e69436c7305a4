// Carriage: one collective, which every rank has called, on its way through the group's engine.
//
// An engine has no descriptor that tells of progress. So it is asked at each look of the reactor's
// driver, and while the driver sleeps by a timer, the more seldom the longer it takes.
// THREAD: reactor's driver only.
#pragma once

#include <functional>
#include <optional>

#include "paceline/core/collective/call/request.h"
#include "paceline/core/collective/agreement/call_record.h"
#include "paceline/core/collective/engine/engine.h"
#include "paceline/core/transport/reactor/reactor.h"

namespace paceline::collective {

// The part that the engine does for this rank; its factor is known when all have
// called.
EngineCall engine_call(const Request& request);

class EngineCarrier final : private transport::Pollable {
 public:
  // `on_end` is called by the driver once the engine is done or has failed; it may destroy this.
  // `request`, `roll` and `engine` outlive it.
  EngineCarrier(Engine& engine, transport::Reactor& reactor, const Request& request,
                  const CallRecord& roll, std::function<void(Result<>)> on_end);
  ~EngineCarrier() override;

  Result<> begin(int rank);
  bool done() const { return done_; }

 private:
  bool on_device() const;
  bool poll() override;
  void set_asleep(bool asleep) override;

  Engine& engine_;
  transport::Reactor& reactor_;
  const Request& request_;
  const CallRecord& roll_;
  const std::function<void(Result<>)> on_end_;
  bool done_ = false;
  Clock::duration nap_;
  std::optional<transport::Poller::TimerId> timer_;
};

}  // namespace paceline::collective
