#include "paceline/core/schedule/path/message_transport.h"

#include <chrono>
#include <deque>
#include <utility>
#include <vector>

#include "paceline/core/base/check.h"
#include "paceline/core/schedule/path/push_pull.h"

namespace paceline::schedule {
namespace {

Work start_on(Communicator& group, const compress::Exchange& exchange) {
  using Kind = compress::Exchange::Kind;
  switch (exchange.kind) {
    case Kind::all_reduce:
      return group.all_reduce(exchange.input, exchange.output, {.op = exchange.op});
    case Kind::all_gather: return group.all_gather(exchange.input, exchange.output);
    case Kind::broadcast: return group.broadcast(exchange.output, exchange.root);
    case Kind::all_to_all:
      return group.all_to_all(exchange.input, exchange.send_counts, exchange.output,
                              exchange.receive_counts);
    case Kind::swap: break;
  }
  std::vector<Work> both;
  if (exchange.to >= 0) both.push_back(group.send(exchange.input, exchange.to));
  if (exchange.from >= 0) both.push_back(group.recv(exchange.output, exchange.from));
  return Work::all_of(std::move(both));
}

class InLanes final : public MessageTransport {
 public:
  InLanes(Communicator& group, int lanes) {
    for (int lane = 0; lane < lanes; ++lane) lanes_.push_back(group.split(0));
  }

  int rank() const override { return lanes_.front()->rank(); }
  int ranks() const override { return lanes_.front()->size(); }
  int lanes() const override { return static_cast<int>(lanes_.size()); }
  bool reaches(Path path) const override { return path == Path::all_to_all; }
  Work start(int lane, Path, const compress::Exchange& exchange) override {
    return start_on(*lanes_[static_cast<std::size_t>(lane)], exchange);
  }
  double seconds_in_flight() const override {
    return std::chrono::duration<double>(lanes_.front()->traffic().in_flight).count();
  }

 private:
  std::vector<std::unique_ptr<Communicator>> lanes_;
};

// Each lane has an order of its own on the servers, as among the ranks.
class OnServers final : public MessageTransport {
 public:
  OnServers(Job& job, Communicator& group, int lanes) : others_(transport_in_lanes(group, lanes)) {
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

std::unique_ptr<MessageTransport> transport_in_lanes(Communicator& group, int lanes) {
  return std::make_unique<InLanes>(group, lanes);
}

std::unique_ptr<MessageTransport> transport_on_servers(Job& job, Communicator& group, int lanes) {
  PACELINE_CHECK(
      group.size() == job.world_size() && group.rank() == job.rank(),
      "servers sum what all {} workers of the job push, and the group has {} ranks: give "
      "the job's world, or aggregate=collective",
      job.world_size(), group.size());
  return std::make_unique<OnServers>(job, group, lanes);
}

}  // namespace paceline::schedule
