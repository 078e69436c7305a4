// The parts of calls whose buffers lie in a device's memory, on the caller's thread: they make
// offers to NCCL and stage buffers, as choose_route.h says.
#include <fmt/format.h>

#include "paceline/core/base/check.h"
#include "paceline/core/collective/carrier/carrier_pieces.h"
#include "paceline/core/collective/carrier/engine_carrier.h"
#include "paceline/core/collective/group/communicator_impl.h"
#include "paceline/core/collective/staging/staged_call.h"
#include "paceline/core/membership/generation/named_device.h"

namespace paceline {

using collective::Call;
using collective::Request;

bool Communicator::Impl::is_on_device(const Request& request) const {
  if (!devices || request.call.operation == Operation::barrier) return false;
  const bool engine_takes_devices =
      engines != nullptr && engines->traits().memory == Memory::Kind::cuda;
  return all_on_device || (request.memory() != Memory::Kind::host && !engine_takes_devices);
}

std::shared_ptr<collective::StagingArea> Communicator::Impl::staging_area(int device) {
  device::Devices& known = devices();
  PACELINE_CHECK(device >= 0 && device < known.count(),
                 "a buffer is said to lie on device {}, and this process sees {} devices", device,
                 known.count());
  std::shared_ptr<collective::StagingArea> made;
  {
    const std::lock_guard lock(mutex);
    auto& area = staging_areas[device];
    if (area) return area;
    made = area =
        std::make_shared<collective::StagingArea>(known.device(device), [this](std::size_t bytes) {
          return membership::allocate(group->reactor(), group->members().shared_generation(),
                                      bytes);
        });
  }
  // The lock is free here: this may run callbacks of the program, which may call this group.
  membership::name_device(*group->reactor(), group->members().shared_generation(),
                          known.device(device).name());
  return made;
}

void Communicator::Impl::take_from_device(Request& request, std::string_view algorithm) {
  const Call& call = request.call;
  const ConstBuffer& known = request.input.count > 0 ? request.input : ConstBuffer(request.output);
  PACELINE_CHECK(all_on_device || request.input.count == 0 || request.output.count == 0 ||
                     (request.input.memory.kind == request.output.memory.kind &&
                      request.input.memory.device == request.output.memory.device),
                 "{}: input and output lie in different memory; both must be in that of one device",
                 to_string(call));
  const bool is_root = call.root == rank;
  request.staged = std::make_shared<collective::StagedCall>(
      staging_area(all_on_device ? 0 : known.memory.device),
      collective::DeviceBuffers{.input = request.input,
                                .output = request.output,
                                .brings_input = call.operation != Operation::broadcast || is_root,
                                .takes_output = call.operation != Operation::broadcast || !is_root,
                                .must_be_apart = call.operation == Operation::all_to_all});
  if (!device_carrier)
    throw Error(in_operation(fmt::format("{} in group '{}'", to_string(call), group->name()),
                             device_carrier.error()));
  request.is_on_device = true;
  request.may_reach_devices = group->may_reach_devices();
  if (!collective::may_be_offered(route_facts, request, algorithm)) return;
  request.call.offer = late_engine->offer(engine_call(request));
  if (request.call.offer) request.late_engine = late_engine;
}

void Communicator::Impl::place_on_host(Request& request) {
  request.staged->place_buffers();
  request.input = request.staged->input();
  request.output = request.staged->output();
}

// Once it is known what carries the call.
void Communicator::Impl::bring_from_device(const Request& request) const {
  if (!request.staged || !request.staged->is_staged()) return;
  request.staged->bring(
      collective::pieces_of(request, rank, group->members().owners(), staged_piece));
}

}  // namespace paceline
