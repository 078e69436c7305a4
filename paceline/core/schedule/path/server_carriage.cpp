#include "paceline/core/base/check.h"
#include "paceline/core/schedule/path/carriage.h"
#include "paceline/core/schedule/path/push_pull.h"

namespace paceline::schedule {
namespace {

class OnServers final : public Carriage {
 public:
  OnServers(Job& job, Communicator& group, int lanes)
      : others_(carriage_in_lanes(group, lanes)), servers_(job) {}

  int rank() const override { return others_->rank(); }
  int ranks() const override { return others_->ranks(); }
  int lanes() const override { return others_->lanes(); }
  Work start(int lane, const compress::Exchange& exchange) override {
    if (exchange.kind == compress::Exchange::Kind::all_reduce &&
        PushPull::can_carry(exchange.op, exchange.input.dtype))
      return servers_.all_reduce(exchange.input, exchange.output, exchange.op);
    return others_->start(lane, exchange);
  }
  double seconds_in_flight() const override {
    return servers_.seconds_in_flight() + others_->seconds_in_flight();
  }

 private:
  std::unique_ptr<Carriage> others_;
  PushPull servers_;
};

}  // namespace

std::unique_ptr<Carriage> carriage_on_servers(Job& job, Communicator& group, int lanes) {
  PACELINE_CHECK(
      group.size() == job.world_size() && group.rank() == job.rank(),
      "servers sum what all {} workers of the job push, and the group has {} ranks: give "
      "the job's world, or aggregate=collective",
      job.world_size(), group.size());
  return std::make_unique<OnServers>(job, group, lanes);
}

}  // namespace paceline::schedule
