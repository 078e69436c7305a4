#include "paceline/core/schedule/path/message_transport.h"

#include <chrono>
#include <utility>
#include <vector>

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

}  // namespace

std::unique_ptr<MessageTransport> carriage_in_lanes(Communicator& group, int lanes) {
  return std::make_unique<InLanes>(group, lanes);
}

}  // namespace paceline::schedule
