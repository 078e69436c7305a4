#include "paceline/core/collective/group/active_operation.h"

#include <fmt/format.h>

#include <utility>

#include "paceline/core/collective/call/collective_frames.h"
#include "paceline/core/collective/call/work_state.h"
#include "paceline/core/collective/carrier/engine_carrier.h"
#include "paceline/core/collective/carrier/program_carrier.h"
#include "paceline/core/collective/engine/late_engine.h"
#include "paceline/core/collective/staging/staged_call.h"

namespace paceline::collective {

using transport::FrameHeader;

ActiveOperation::ActiveOperation(const OperationContext& context, std::uint64_t sequence,
                                 Request request)
    : context_(context),
      request_(std::move(request)),
      posting_(request_.route == Route::device_kernels ? *context.kernels : context.posting),
      agreement_(context.members, context.group_name, context.group, sequence, request_,
                 context.traffic) {}

Result<> ActiveOperation::start() {
  if (is_offered()) {
    agreement_.call_all();
    return go_on();
  }
  using Stand = PostingCarrier::Stand;
  const Stand stand = collective::is_posted(request_.route) ? posting_.stand() : Stand::over;
  if (stand == Stand::ready) {
    carrier_ = &posting_;
    return carrier_->begin(sequence(), request_);
  }
  if (request_.route == Route::gathered) {
    const Members& members = context_.members;
    inputs_.emplace(FingerprintBarrier::form_of(members), members.rank(), members.size(), request_,
                    context_.traffic);
  }
  if (auto staged = leave_devices(); !staged) return staged;
  if (stand == Stand::awaited || !agreement_.suits_barrier()) agreement_.call_all();
  else agreement_.begin_barrier(inputs_ ? &*inputs_ : nullptr);
  if (auto begun = carry_by_messages(); !begun) return begun;
  return go_on();
}

// Messages carry what lies on the host. Before the call is told, because it tells where.
Result<> ActiveOperation::leave_devices() {
  const bool is_on_device = request_.staged && !request_.staged->is_staged();
  return is_on_device ? context_.stage(request_) : Done{};
}

Result<> ActiveOperation::carry_by_messages() {
  const auto on_done = [this] {
    is_carried_ = true;
    context_.on_done();
  };
  if (request_.route == Route::engine)
    own_ = std::make_unique<EngineCarrier>(*context_.engine, context_.reactor, context_.members,
                                           agreement_.record(), on_done);
  else
    own_ =
        std::make_unique<ProgramCarrier>(context_.members, agreement_, context_.traffic, on_done);
  carrier_ = own_.get();
  return carrier_->begin(sequence(), request_);
}

Result<CallProgress> ActiveOperation::advance() {
  if (is_offered()) return await_offers();
  auto progress = carrier_->advance();
  if (!progress) return progress;
  if (*progress == CallProgress::by_messages) {
    if (auto staged = leave_devices(); !staged) return staged.error();
    agreement_.call_all();
    if (auto begun = carry_by_messages(); !begun) return begun.error();
    return advance();
  }
  if (*progress != CallProgress::done || is_carried_) return progress;
  if (is_posted()) agreement_.all_have_called();
  is_carried_ = true;
  return progress;
}

Result<> ActiveOperation::go_on() {
  if (auto advanced = advance(); !advanced) return advanced.error();
  return Done{};
}

Result<CallProgress> ActiveOperation::look_at_post() {
  if (!is_posted()) return CallProgress::waiting;
  auto progress = advance();
  if (progress && !is_posted()) return CallProgress::moved;  // it is over, or goes by messages
  return progress;
}

// The peer does not wait for this rank's post.
Result<> ActiveOperation::leave_post(int peer) {
  if (!is_posted()) return Done{};
  posting_.leave(peer);
  if (auto staged = leave_devices(); !staged) return staged;
  agreement_.call_all();
  return carry_by_messages();
}

std::string ActiveOperation::description() const {
  const bool is_by_program = !is_posted() && !is_offered();
  const std::string_view carrier = is_by_program ? request_.call.algorithm : request_.carrier();
  return fmt::format("{} ({})", to_string(request_.call, carrier), agreement_.where());
}

// --- offers --------------------------------------------------------------------------------------

// All ranks offer the call to the engine, or none gives it to it.
Result<CallProgress> ActiveOperation::await_offers() {
  if (agreement_.record().has_one_without_offer()) {
    if (auto turned = turn_down(); !turned) return turned.error();
    return advance();
  }
  if (!agreement_.record().is_complete()) return CallProgress::waiting;
  if (!std::exchange(awaits_streams_, true)) context_.await_streams(request_);
  auto passed = request_.staged->has_passed(StagedCall::Moment::called);
  if (!passed) return failed_device(context_.members, request_, passed.error());
  if (!*passed) return CallProgress::waiting;
  if (auto given = give_to_engine(); !given) return given.error();
  return advance();
}

// Behind the callers' streams as they were at the call, which may wait for its end by now.
Result<> ActiveOperation::give_to_engine() {
  request_.route = Route::engine;
  request_.call.algorithm = name_of(Route::offered);
  request_.late_engine->invite(*agreement_.record().call_of(0)->offer);
  if (request_.memory() != Memory::Kind::host) request_.scale_input = false;
  request_.input.memory.stream = request_.output.memory.stream = request_.staged->own_stream();
  return carry_by_messages();
}

// Some ranks' buffers lie on the host. The group's later calls are not offered.
Result<> ActiveOperation::turn_down() {
  request_.late_engine->decline();
  request_.route = Route::programs;
  if (auto staged = leave_devices(); !staged) return staged;
  return carry_by_messages();
}

// --- frames --------------------------------------------------------------------------------------

MutableBytes ActiveOperation::place(int peer, const FrameHeader& header) {
  return is_posted() || is_offered() ? MutableBytes() : carrier_->place(peer, header);
}

Result<> ActiveOperation::received(int peer, const FrameHeader& header, Bytes payload,
                                   Delivery delivery) {
  if (header.type == frame::kCall) return called(peer, payload);
  const bool was_posted = is_posted(), was_complete = agreement_.record().is_complete();
  if (auto left = leave_post(peer); !left) return left;
  if (header.type == frame::kAssent) {
    auto heard = assented(peer, header, payload);
    const bool may_go_on = was_posted || agreement_.record().is_complete() != was_complete;
    return heard && may_go_on ? go_on() : heard;
  }
  if (is_offered()) {  // a rank that sends data has not offered the call
    if (auto turned = turn_down(); !turned) return turned;
  }
  if (agreement_.accepts(header)) {
    if (auto taken = carrier_->received(peer, header, payload, delivery); !taken) return taken;
  }
  return go_on();
}

Result<> ActiveOperation::called(int peer, Bytes payload) {
  auto call = agreement_.check_call(peer, payload);
  if (!call) return call.error();
  if (!*call) return Done{};
  if (auto left = leave_post(peer); !left) return left;
  agreement_.on_call(peer, **std::move(call));
  return go_on();
}

Result<> ActiveOperation::assented(int peer, const FrameHeader& header, Bytes payload) {
  if (auto heard = agreement_.on_assent(peer, header, payload); !heard) return heard;
  if (inputs_ && agreement_.barrier_is_complete()) inputs_->finish();
  return Done{};
}

Result<> ActiveOperation::ask_all() {
  agreement_.call_all();
  return go_on();
}

// --- the end -------------------------------------------------------------------------------------

std::vector<int> ActiveOperation::missing() const {
  std::vector<int> ranks = agreement_.missing();
  if (is_posted())
    std::erase_if(ranks, [&](int rank) { return posting_.has_posted(rank, sequence()); });
  return ranks;
}

AwaitedRanks ActiveOperation::awaited() const {
  if (is_posted()) return carrier_->awaited();
  if (auto ranks = agreement_.awaited()) return {.ranks = *std::move(ranks)};
  if (is_offered()) return {};
  return carrier_->awaited();
}

bool ActiveOperation::done() const {
  return is_carried_ && agreement_.record().is_complete() && (!inputs_ || inputs_->is_finished()) &&
         !posting_.is_sending();
}

void ActiveOperation::publish() {
  request_.work->total_weight = agreement_.record().total_weight();
  for (int rank = 0; rank < context_.members.size(); ++rank)
    request_.work->notes.push_back(agreement_.record().call_of(rank)->note);
}

void ActiveOperation::give_up() {
  if (own_) own_->give_up();
}

}  // namespace paceline::collective
