#include "paceline/core/collective/carrier/engine_carrier.h"

#include <algorithm>

namespace paceline::collective {
namespace {

// A look costs some microseconds: at the longest nap well under 1 % of a core.
constexpr std::chrono::microseconds kShortestNap{20}, kLongestNap{2000};

}  // namespace

EngineCall engine_call(const Request& request) {
  const Call& call = request.call;
  EngineCall result{.operation = call.operation,
                    .op = call.op == ReduceOp::average ? ReduceOp::sum : call.op,
                    .dtype = call.dtype,
                    .root = call.root,
                    .input = request.input,
                    .output = request.output};
  switch (call.operation) {
    case Operation::reduce_scatter:
    case Operation::scatter: result.sent = request.input_chunks.chunks; break;
    case Operation::all_gather:
    case Operation::gather: result.taken = request.output_chunks().chunks; break;
    case Operation::all_to_all:
      result.sent = request.sent.chunks;
      result.taken = request.taken.chunks;
      break;
    default: break;
  }
  return result;
}

EngineCarrier::EngineCarrier(Engine& engine, transport::Reactor& reactor,
                                 const Request& request, const CallRecord& roll,
                                 std::function<void(Result<>)> on_end)
    : engine_(engine),
      reactor_(reactor),
      request_(request),
      roll_(roll),
      on_end_(std::move(on_end)),
      nap_(kShortestNap) {
  reactor_.add(*this);
}

EngineCarrier::~EngineCarrier() {
  reactor_.remove(*this);
  if (timer_) reactor_.poller().cancel(*timer_);
}

Result<> EngineCarrier::begin(int rank) {
  EngineCall call = engine_call(request_);
  if (request_.call.op == ReduceOp::average && on_device())
    call.factor = roll_.sum_factor() * (roll_.weigh_the_same() ? 1 : roll_.input_factor(rank));
  return engine_.begin(call);
}

bool EngineCarrier::on_device() const {
  return request_.memory() != Memory::Kind::host;
}

bool EngineCarrier::poll() {
  if (done_) return false;
  const auto ended = engine_.progress();
  if (ended && !ended.value()) return false;
  done_ = true;
  const bool average = request_.call.op == ReduceOp::average && !on_device();
  if (ended && average && roll_.sum_factor() != 1.0)
    scale(request_.call.dtype, request_.output.bytes(), roll_.sum_factor());
  const auto on_end = on_end_;  // ours may end with this
  on_end(ended ? Result<>(Done{}) : Result<>(ended.error()));
  return true;
}

void EngineCarrier::set_asleep(bool asleep) {
  if (timer_) reactor_.poller().cancel(*timer_);
  timer_.reset();
  if (!asleep) return;
  timer_ = reactor_.poller().after(nap_, [this] { timer_.reset(); });
  nap_ = std::min<Clock::duration>(2 * nap_, kLongestNap);
}

}  // namespace paceline::collective
