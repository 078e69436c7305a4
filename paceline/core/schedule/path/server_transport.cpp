#include <deque>

#include "paceline/core/base/check.h"
#include "paceline/core/schedule/path/message_transport.h"
#include "paceline/core/schedule/path/push_pull.h"

namespace paceline::schedule {
namespace {

// Each lane has an order of its own on the servers, as among the ranks.
class OnServers final : public MessageTransport {
 public:
  OnServers(Job& job, Communicator& group, int lanes) : others_(carriage_in_lanes(group, lanes)) {
    for (int lane = 0; lane < lanes; ++lane) servers_.emplace_back(job);
  }

  int rank() const override { return others_->rank(); }
  int ranks() const override { return others_->ranks(); }
  int lanes() const override { return others_->lanes(); }
  bool reaches(Path) const override { return true; }
  Work start(int lane, Path path, const compress::Exchange& exchange) override {
    if (path == Path::server && exchange.kind == compress::Exchange::Kind::all_reduce)
      return servers_[static_cast<std::size_t>(lane)].all_reduce(exchange.input, exchange.output,
                                                                 exchange.op);
    return others_->start(lane, path, exchange);
  }
  double seconds_in_flight() const override {
    return servers_.front().seconds_in_flight() + others_->seconds_in_flight();
  }

 private:
  std::unique_ptr<MessageTransport> others_;
  std::deque<PushPull> servers_;  // by lane
};

}  // namespace

std::unique_ptr<MessageTransport> carriage_on_servers(Job& job, Communicator& group, int lanes) {
  PACELINE_CHECK(
      group.size() == job.world_size() && group.rank() == job.rank(),
      "servers sum what all {} workers of the job push, and the group has {} ranks: give "
      "the job's world, or aggregate=collective",
      job.world_size(), group.size());
  return std::make_unique<OnServers>(job, group, lanes);
}

}  // namespace paceline::schedule
