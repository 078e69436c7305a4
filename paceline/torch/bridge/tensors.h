// Converts tensors into buffers, and memory into tensors.
#pragma once

#include <ATen/core/Tensor.h>

#include <any>
#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "paceline/core/base/bytes.h"

namespace paceline {

// Empty for element types that Paceline does not carry (complex, quantised, ...).
std::optional<Dtype> dtype_of(at::ScalarType type);

at::ScalarType scalar_type_of(Dtype dtype);

// "f32[128, 784]"; for texts.
std::string describe(const at::Tensor& tensor);

// The tensor's own memory, not a copy; the tensor must live as long as the buffer is used. Memory of
// a CUDA device is used behind what its current stream was given until now. THROWS Error (misuse)
// with the remedy when the tensor is undefined, neither on the CPU nor on a CUDA device, not dense
// and contiguous, or of an element type that is not carried.
Buffer buffer_of(const at::Tensor& tensor);

// A tensor of `like`'s shape, element type and (where it is dense) memory layout over `memory`,
// which `owner` keeps alive. It is not an autograd view, so zero_grad(false) can detach it.
// REQUIRES: `memory` holds like.numel() elements, and lies on `device`.
at::Tensor tensor_over(std::byte* memory, const at::Tensor& like, std::any owner,
                       at::Device device = at::kCPU);

// Whether both are the same elements of the same memory in the same order. Tensors whose memory was
// taken away have none.
bool is_same_memory(const at::Tensor& a, const at::Tensor& b);

// A tensor of `like`'s shape and type that nobody can read or write: an operator that tries throws
// c10::Error with the text `why`. What does not look at elements, such as its sizes, works.
at::Tensor unreadable_like(const at::Tensor& like, std::string why);

// Dense tensors, on any device, are packed one after the other as plain bytes on the host, which a
// coalesced broadcast sends.
std::size_t packed_bytes(std::span<const at::Tensor> tensors);
void pack(std::span<const at::Tensor> tensors,
          MutableBytes into);  // REQUIRES: into.size() == packed_bytes(tensors)
void unpack(Bytes from, std::span<const at::Tensor> tensors);  // in place; no autograd

}  // namespace paceline
