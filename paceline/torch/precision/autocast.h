// Autocast: a scope in which libtorch chooses the type of each operator on one kind of device.
#pragma once

#include <c10/core/DeviceType.h>
#include <c10/core/ScalarType.h>

#include <optional>
#include <utility>

namespace paceline {

// Products and convolutions compute in 16 bits, losses and what is sensitive in float32, by
// libtorch's lists. The forward pass and the loss stand in it, the backward pass after it. Scopes
// may stand in each other; the end of the outermost one drops the parameters that were cast, so
// that a step casts each once.
//
// THREAD: it works on the one that makes it, and ends there.
class Autocast {
 public:
  // None: it changes nothing.
  explicit Autocast(std::optional<at::ScalarType> type, at::DeviceType device = at::kCPU);
  Autocast(Autocast&& other) noexcept
      : device_(other.device_), before_(std::exchange(other.before_, std::nullopt)) {}
  Autocast& operator=(Autocast&&) = delete;
  ~Autocast();

 private:
  struct Before {
    bool is_enabled = false;
    at::ScalarType type = at::kBFloat16;
  };
  const at::DeviceType device_;
  std::optional<Before> before_;
};

}  // namespace paceline
