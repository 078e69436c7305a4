// Declares the part of NCCL that the engine uses, so that building it does not take NCCL's 200 MB.
// Names, numbers and layouts are those of nccl.h, which keeps them from 2.14 on: NVIDIA's
// src/nccl.h.in (github.com/NVIDIA/nccl, Apache-2.0; BSD-3-Clause before 2.30).
#pragma once

#include <cuda_runtime_api.h>

#include <climits>
#include <cstddef>

namespace paceline::nccl {

struct Comm;  // ncclComm

struct UniqueId {
  char internal[128];
};

enum class Status : int {
  success = 0,
  unhandled_cuda_error = 1,
  invalid_argument = 4,
  invalid_usage = 5,
  remote_error = 6,
  in_progress = 7
};
enum class Op : int { sum = 0, product = 1, max = 2, min = 3 };  // others are made at run time
enum class Type : int { i8 = 0, u8 = 1, i32 = 2, i64 = 4, f16 = 6, f32 = 7, f64 = 8, bf16 = 9 };
enum class Residence : int { host_immediate = 1 };

// The beginning of ncclConfig_t; NCCL reads as far as `size` and `version` say.
struct Config {
  std::size_t size = sizeof(Config);
  unsigned int magic = 0xcafebeef;
  unsigned int version = 21400;
  int blocking = 0;
  int unset = INT_MIN;
};

}  // namespace paceline::nccl
