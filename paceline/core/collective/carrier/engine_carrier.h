// EngineCarrier: one collective on its way through the group's engine, which gets it once every
// rank has called.
//
// An engine has no descriptor that tells of progress. So it is asked at each look of the reactor's
// driver, and while the driver sleeps by a timer, the more seldom the longer it takes.
// THREAD: reactor's driver only.
#pragma once

#include <functional>

#include "paceline/core/collective/agreement/call_record.h"
#include "paceline/core/collective/carrier/carrier.h"
#include "paceline/core/collective/engine/engine.h"
#include "paceline/core/transport/reactor/naps.h"

namespace paceline::collective {

// The part that the engine does for this rank; its factor is known when all have
// called.
EngineCall engine_call(const Request& request);

class EngineCarrier final : public Carrier, private transport::Pollable {
 public:
  // `on_done` is called by the driver once the engine is done; it may destroy this. Where the
  // engine fails, the generation does. All outlive it.
  EngineCarrier(Engine& engine, transport::Reactor& reactor, const Members& members,
                const CallRecord& record, std::function<void()> on_done);
  ~EngineCarrier() override;

  Result<> begin(std::uint64_t sequence, Request& request) override;
  Result<> received(int peer, const transport::FrameHeader& header, Bytes payload,
                    Delivery delivery) override;
  Result<CallProgress> advance() override;
  AwaitedRanks awaited() const override { return {}; }
  void give_up() override { is_over_ = true; }

 private:
  Result<> hand_over();
  bool on_device() const { return request_->memory() != Memory::Kind::host; }
  bool poll() override;
  void set_asleep(bool asleep) override { naps_.set_asleep(asleep); }

  Engine& engine_;
  transport::Reactor& reactor_;
  const Members& members_;
  const CallRecord& record_;
  const std::function<void()> on_done_;
  Request* request_ = nullptr;
  bool has_call_ = false;  // the engine
  bool is_over_ = false;
  transport::Naps naps_;
};

}  // namespace paceline::collective
