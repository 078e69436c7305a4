#include "paceline/torch/gradient/device_copies.h"

#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/torch.h>

#include <exception>

namespace paceline::gradient {
namespace {

using c10::impl::VirtualGuardImpl;

c10::Stream current_stream(at::Device device) {
  return VirtualGuardImpl(device.type()).getStream(device);
}

void let_follow(const c10::Stream& stream, const c10::Stream& first) {
  c10::Event event(first.device_type());
  event.record(first);
  event.block(stream);
}

}  // namespace

c10::Stream own_stream(at::Device device) {
  return VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device, /*isHighPriority=*/true);
}

DeviceCopies::DeviceCopies(at::Device device)
    : device_(device),
      down_(own_stream(device)),
      up_(own_stream(device)),
      last_to_device_(device.type()) {}

void DeviceCopies::settle() {
  try {
    for (const ToHost& one : to_host_) one.arrived.synchronize();
    last_to_device_.synchronize();
  } catch (const std::exception&) {  // a device that has failed copies no more
  }
}

void DeviceCopies::begin_to_host(const at::Tensor& from, const at::Tensor& to) {
  let_follow(down_, current_stream(device_));
  const c10::StreamGuard guard(down_);
  at::Tensor(to).copy_(from, /*non_blocking=*/true);
  to_host_.push_back({.arrived = c10::Event(device_.type()), .from = from});
  to_host_.back().arrived.record(down_);
}

bool DeviceCopies::take_arrived() {
  if (!to_host_.front().arrived.query()) return false;
  to_host_.pop_front();
  return true;
}

void DeviceCopies::to_device(const at::Tensor& from, const at::Tensor& to) {
  {
    const c10::StreamGuard guard(up_);
    at::Tensor(to).copy_(from, /*non_blocking=*/true);
    last_to_device_.record(up_);
  }
  last_to_device_.block(current_stream(device_));
}

}  // namespace paceline::gradient
