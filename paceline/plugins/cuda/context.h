// The context of one CUDA device, which all of its parts share. This header is for this room.
#pragma once

#include <fmt/format.h>

#include "paceline/core/base/bytes.h"
#include "paceline/core/base/result.h"
#include "paceline/plugins/cuda/driver.h"

namespace paceline::cuda {

inline CUdeviceptr address(const std::byte* memory) {
  return reinterpret_cast<CUdeviceptr>(memory);
}

// The calling thread works in the device's context while it lives.
class Current {
 public:
  Current(const Driver& driver, CUcontext context) : driver_(driver) {
    driver_.push_context(context);
  }
  ~Current() {
    CUcontext ours = nullptr;
    driver_.pop_context(&ours);
  }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

 private:
  const Driver& driver_;
};

struct Context {
  const Driver driver;
  const int number;
  CUcontext context = nullptr;

  Current enter() const { return {driver, context}; }
  Result<> checked(const char* call, CUresult code) const {
    if (code == CUDA_SUCCESS) return Done{};
    const char* text = nullptr;
    driver.text_of(code, &text);
    return Failure{
        Fault::io,
        fmt::format("cuda:{}: {} failed: {}", number, call, text == nullptr ? "unknown" : text),
        {}};
  }
};

}  // namespace paceline::cuda
