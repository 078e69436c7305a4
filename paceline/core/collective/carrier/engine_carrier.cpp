#include "paceline/core/collective/carrier/engine_carrier.h"

namespace paceline::collective {

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

EngineCarrier::EngineCarrier(Engine& engine, transport::Reactor& reactor, const Members& members,
                             const CallRecord& record, std::function<void()> on_done)
    : engine_(engine),
      reactor_(reactor),
      members_(members),
      record_(record),
      on_done_(std::move(on_done)),
      naps_(reactor) {}

EngineCarrier::~EngineCarrier() {
  if (has_call_) reactor_.remove(*this);
}

Result<> EngineCarrier::begin(std::uint64_t, Request& request) {
  request_ = &request;
  return Done{};
}

Result<> EngineCarrier::received(int peer, const transport::FrameHeader& header, Bytes, Delivery) {
  return unexpected(members_, peer, header, "which an engine carries");
}

Result<CallProgress> EngineCarrier::advance() {
  if (is_over_) return CallProgress::done;
  if (has_call_ || !record_.is_complete()) return CallProgress::waiting;
  if (auto begun = hand_over(); !begun) return begun.error();
  return CallProgress::waiting;
}

Result<> EngineCarrier::hand_over() {
  has_call_ = true;
  reactor_.add(*this);
  if (request_->scale_input) scale_input(*request_, record_, members_.rank());
  EngineCall call = engine_call(*request_);
  if (request_->call.op == ReduceOp::average && on_device()) {
    const double own = record_.weigh_the_same() ? 1 : record_.input_factor(members_.rank());
    call.factor = record_.sum_factor() * own;
  }
  return engine_.begin(call);
}

bool EngineCarrier::poll() {
  if (is_over_) return false;
  const auto ended = engine_.progress();
  if (ended && !ended.value()) return false;
  is_over_ = true;
  if (!ended) {
    members_.generation().fail(ended.error());
    return true;
  }
  const bool average = request_->call.op == ReduceOp::average && !on_device();
  if (average && record_.sum_factor() != 1.0)
    scale(request_->call.dtype, request_->output.bytes(), record_.sum_factor());
  const auto on_done = on_done_;  // ours may end with this
  on_done();
  return true;
}

}  // namespace paceline::collective
