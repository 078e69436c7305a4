#include "paceline/torch/bridge/tensors.h"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/torch.h>

#include <cstring>

#include "paceline/core/base/result.h"

namespace paceline {
namespace {

std::byte* memory_of(const at::Tensor& tensor) {
  return static_cast<std::byte*>(tensor.numel() == 0 ? nullptr : tensor.data_ptr());
}

Memory place_of(at::Device device) {
  if (device.is_cpu()) return {};
  const c10::Stream stream = c10::impl::VirtualGuardImpl(device.type()).getStream(device);
  return {.kind = Memory::Kind::cuda, .device = device.index(), .stream = stream.native_handle()};
}

}  // namespace

std::optional<Dtype> dtype_of(at::ScalarType type) {
  switch (type) {
    case at::kDouble: return Dtype::f64;
    case at::kFloat: return Dtype::f32;
    case at::kHalf: return Dtype::f16;
    case at::kBFloat16: return Dtype::bf16;
    case at::kLong: return Dtype::i64;
    case at::kInt: return Dtype::i32;
    case at::kShort: return Dtype::i16;
    case at::kChar: return Dtype::i8;
    case at::kByte: return Dtype::u8;
    case at::kBool: return Dtype::boolean;
    default: return {};
  }
}

at::ScalarType scalar_type_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::f64: return at::kDouble;
    case Dtype::f32: return at::kFloat;
    case Dtype::f16: return at::kHalf;
    case Dtype::bf16: return at::kBFloat16;
    case Dtype::i64: return at::kLong;
    case Dtype::i32: return at::kInt;
    case Dtype::i16: return at::kShort;
    case Dtype::i8: return at::kChar;
    case Dtype::u8: return at::kByte;
    case Dtype::boolean: return at::kBool;
  }
  return at::ScalarType::Undefined;
}

std::string describe(const at::Tensor& tensor) {
  if (!tensor.defined()) return "an undefined tensor";
  const auto dtype = dtype_of(tensor.scalar_type());
  std::string text = dtype ? std::string(name_of(*dtype)) : c10::str(tensor.scalar_type());
  return c10::str(text, tensor.sizes());
}

Buffer buffer_of(const at::Tensor& tensor) {
  if (!tensor.defined())
    throw_misuse("an undefined tensor has no memory to communicate: fill it first");
  if (tensor.layout() != at::kStrided) {
    throw_misuse(c10::str("a tensor of layout ", tensor.layout(),
                          " cannot be communicated: convert it with to_dense()"));
  }
  if (!tensor.device().is_cpu() && !tensor.device().is_cuda()) {
    throw_misuse(c10::str("a tensor on ", tensor.device(),
                          " cannot be communicated: memory of the host and of CUDA devices is "
                          "carried; copy it with .cpu()"));
  }
  const auto dtype = dtype_of(tensor.scalar_type());
  if (!dtype) {
    throw_misuse(c10::str("elements of type ", tensor.scalar_type(),
                          " cannot be communicated: convert the tensor, for example to float "
                          "(complex: at::view_as_real)"));
  }
  if (!tensor.is_contiguous()) {
    throw_misuse(c10::str("a tensor ", describe(tensor), " with strides ", tensor.strides(),
                          " is not contiguous: communicate its .contiguous() copy"));
  }
  return {memory_of(tensor), static_cast<std::size_t>(tensor.numel()), *dtype,
          place_of(tensor.device())};
}

at::Tensor tensor_over(std::byte* memory, const at::Tensor& like, std::any owner,
                       at::Device device) {
  const auto options = at::TensorOptions().dtype(like.scalar_type()).device(device);
  auto keep = [owner = std::move(owner)](void*) {};
  if (like.is_non_overlapping_and_dense()) {
    return at::from_blob(memory, like.sizes(), like.strides(), std::move(keep), options, device);
  }
  return at::from_blob(memory, like.sizes(), std::move(keep), options, device);
}

bool is_same_memory(const at::Tensor& a, const at::Tensor& b) {
  const auto has_memory = [](const at::Tensor& tensor) {
    return tensor.defined() && tensor.layout() == at::kStrided &&
           (tensor.numel() == 0 || tensor.storage().nbytes() > 0);
  };
  return has_memory(a) && has_memory(b) && a.scalar_type() == b.scalar_type() &&
         a.sizes() == b.sizes() && a.strides() == b.strides() &&
         a.const_data_ptr() == b.const_data_ptr();
}

// Its storage has no bytes, which is how the rest of Paceline knows it.
at::Tensor unreadable_like(const at::Tensor& like, std::string why) {
  c10::Storage nothing(c10::Storage::use_byte_size_t(), 0, c10::DataPtr(nullptr, like.device()));
  nothing.unsafeGetStorageImpl()->release_data_and_set_meta_custom_data_ptr_error_msg_(
      std::move(why));
  const auto key = like.is_cuda() ? c10::DispatchKey::CUDA : c10::DispatchKey::CPU;
  at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
      std::move(nothing), c10::DispatchKeySet(key), like.dtype());
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(like.sizes(), like.strides());
  return tensor;
}

std::size_t packed_bytes(std::span<const at::Tensor> tensors) {
  std::size_t total = 0;
  for (const at::Tensor& tensor : tensors) total += tensor.nbytes();
  return total;
}

void pack(std::span<const at::Tensor> tensors, MutableBytes into) {
  for (const at::Tensor& tensor : tensors) {
    const at::Tensor dense = tensor.detach().contiguous().cpu();
    if (dense.numel() > 0) std::memcpy(into.data(), dense.const_data_ptr(), dense.nbytes());
    into = into.subspan(dense.nbytes());
  }
}

void unpack(Bytes from, std::span<const at::Tensor> tensors) {
  const at::NoGradGuard no_grad;
  for (const at::Tensor& tensor : tensors) {
    const std::size_t size = tensor.nbytes();
    if (size == 0) continue;
    // copy_ handles layouts that are not contiguous, and the version counter.
    at::Tensor flat = at::empty(tensor.sizes(), at::TensorOptions(tensor.scalar_type()));
    std::memcpy(flat.data_ptr(), from.data(), size);
    // Elements of an expanded tensor are one in memory: libtorch writes to that one alone.
    at::Tensor to = tensor.detach();
    for (std::int64_t d = 0; d < to.dim(); ++d) {
      if (to.stride(d) != 0 || to.size(d) < 2) continue;
      to = to.narrow(d, 0, 1);
      flat = flat.narrow(d, 0, 1);
    }
    to.copy_(flat);
    from = from.subspan(size);
  }
}

}  // namespace paceline
