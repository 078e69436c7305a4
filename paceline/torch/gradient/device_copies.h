// DeviceCopies: gradients go from a device to the host, and their means come back, on streams beside
// that of the computation, so that it goes on meanwhile. Nothing here waits for the device but the
// end.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include <cstddef>
#include <deque>

namespace paceline::gradient {

// A stream of the device beside those of the computation, of high priority: who waits for it holds
// up other ranks too.
c10::Stream own_stream(at::Device device);

// THREAD: one at a time.
class DeviceCopies {
 public:
  explicit DeviceCopies(at::Device device);
  ~DeviceCopies() { settle(); }
  DeviceCopies(const DeviceCopies&) = delete;
  DeviceCopies& operator=(const DeviceCopies&) = delete;

  // Copies to the host, behind what the current stream of the device was given until now. The host's
  // memory stays until the copy has arrived, or settle() was called.
  void begin_to_host(const at::Tensor& from, const at::Tensor& to);
  // Whether the first copy to the host that was not asked for successfully has arrived; never
  // blocks. THROWS c10::Error: the device has failed. REQUIRES: some copy was begun and not taken.
  bool take_arrived();
  // Copies to the device. What the current stream is given from now on begins after the copy.
  // The host's memory stays until settle() was called.
  void to_device(const at::Tensor& from, const at::Tensor& to);
  // Waits until the device neither reads nor writes host memory for copies that were begun.
  void settle();

 private:
  const at::Device device_;
  const c10::Stream down_, up_;
  // Copies to the host that were begun and not taken.
  struct ToHost {
    c10::Event arrived;
    at::Tensor from;
  };
  std::deque<ToHost> to_host_;
  c10::Event last_to_device_;
};

}  // namespace paceline::gradient
