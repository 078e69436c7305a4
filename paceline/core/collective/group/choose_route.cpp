#include "paceline/core/collective/group/choose_route.h"

#include "paceline/core/base/check.h"
#include "paceline/core/collective/call/options.h"
#include "paceline/core/collective/carrier/board_carrier.h"
#include "paceline/core/collective/carrier/gathered_inputs.h"
#include "paceline/core/collective/carrier/link_carrier.h"
#include "paceline/core/collective/program/contract.h"
#include "paceline/core/device/device.h"

namespace paceline::collective {
namespace {

void check_one_memory(const Request& request, Memory::Kind memory) {
  const auto lies_there = [memory](ConstBuffer buffer) {
    return buffer.count == 0 || buffer.memory.kind == memory;
  };
  PACELINE_CHECK(lies_there(request.input) && lies_there(request.output),
                 "{}: one buffer lies in device memory and one on the host; both must be in the "
                 "same",
                 to_string(request.call));
}

// An engine carries every call that it can, also short ones. Buffers on a device are staged on the
// host first, unless the engine takes that memory.
bool takes_engine(const RouteFacts& facts, const Request& request, std::string_view algorithm) {
  const Memory::Kind memory = request.is_on_device ? Memory::Kind::host : request.memory();
  const bool named = algorithm.empty() || (facts.engine && algorithm == facts.engine->name);
  const bool carries = facts.engine && facts.engine->memory == memory;
  if (memory != Memory::Kind::host) {
    check_one_memory(request, memory);
    PACELINE_CHECK(carries && named,
                   "{}: a buffer lies in device memory, which {}; start the job by `paceline run "
                   "--transport nccl` and name no other algorithm, or copy it to the host first",
                   to_string(request.call),
                   carries ? "programs cannot read" : "nothing carries here");
  }
  return carries && named && is_carried_by_programs(request.call.operation);
}

// Few ranks have no cheaper way, and do not ask. Barriers have no programs.
bool board_is_cheapest(const RouteFacts& facts, const Call& call,
                       const std::function<RoutePrices()>& prices) {
  if (facts.ranks < FingerprintBarrier::kFewestRanks || call.operation == Operation::barrier)
    return true;
  const RoutePrices now = prices();
  return now.board <= now.program;
}

bool goes_by_links(const RouteFacts& facts, const Call& call) {
  return !facts.shares_memory && BoardCarrier::suits(call, facts.ranks) &&
         facts.ranks <= LinkCarrier::kMostRanks && bytes_of(call) <= facts.longest_posted;
}

bool is_gathered(const RouteFacts& facts, const Call& call) {
  return !facts.shares_memory && call.operation == Operation::all_reduce && !call.weighted &&
         call.note.empty() && facts.ranks >= FingerprintBarrier::kFewestRanks &&
         bytes_of(call) <= facts.longest_gathered;
}

bool goes_by_device_kernels(const RouteFacts& facts, const Request& request,
                            std::string_view algorithm) {
  const Call& call = request.call;
  return request.is_on_device && request.may_reach_devices &&
         facts.devices != DeviceCarrier::staged && algorithm.empty() &&
         call.operation == Operation::all_reduce && call.count > 0 && has_board(facts, call) &&
         facts.ranks <= device::Device::kMostOperands;
}

Route route_on_host(const RouteFacts& facts, const Request& request, std::string_view algorithm,
                    const std::function<RoutePrices()>& prices) {
  const Call& call = request.call;
  if (takes_engine(facts, request, algorithm)) return Route::engine;
  if (algorithm == kBoard) {
    PACELINE_CHECK(has_board(facts, call),
                   "{}: algorithm 'board' is for barriers and all_reduces without weight and note "
                   "of at least two ranks that share memory on one host; name another one, or none",
                   to_string(call));
    return Route::board;
  }
  if (!algorithm.empty()) return Route::programs;
  if (has_board(facts, call) && board_is_cheapest(facts, call, prices)) return Route::board;
  if (goes_by_links(facts, call)) return Route::links;
  return is_gathered(facts, call) ? Route::gathered : Route::programs;
}

}  // namespace

RouteFacts RouteFacts::of(const Members& members, const EngineLibrary* engine) {
  const topology::Topology topology = members.topology();
  const bool on_a_host = topology.hosts.size() == 1;
  return {.ranks = members.size(),
          .shares_memory = on_a_host && topology.within_a_host == topology::LinkClass::memory,
          .longest_posted = LinkCarrier::longest_input(members.size(), on_a_host),
          .longest_gathered = GatheredInputs::longest_input(FingerprintBarrier::form_of(members),
                                                            members.size(), on_a_host),
          .engine = engine == nullptr ? std::nullopt : std::optional(engine->traits())};
}

bool has_board(const RouteFacts& facts, const Call& call) {
  return facts.shares_memory && BoardCarrier::suits(call, facts.ranks);
}

bool may_be_offered(const RouteFacts& facts, const Request& request, std::string_view algorithm) {
  const Call& call = request.call;
  const bool is_exchanged_in_place =
      call.operation == Operation::all_to_all && request.input.data == request.output.data;
  return facts.makes_offers && request.is_on_device && algorithm.empty() &&
         is_carried_by_programs(call.operation) && call.count > 0 && !is_exchanged_in_place &&
         !is_gathered(facts, call);
}

ChosenRoute choose_route(const RouteFacts& facts, const Request& request,
                         std::string_view algorithm, const std::function<RoutePrices()>& prices) {
  if (request.call.offer) return {Route::offered};
  if (goes_by_device_kernels(facts, request, algorithm)) return {Route::device_kernels};
  return {route_on_host(facts, request, algorithm, prices), request.is_on_device};
}

}  // namespace paceline::collective
