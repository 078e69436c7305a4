#include "tests/devices/cuda_double.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/ops/_coalesced_native.h>
#include <ATen/ops/_indices_native.h>
#include <ATen/ops/_nnz_native.h>
#include <ATen/ops/_sparse_coo_tensor_with_dims_and_tensors_native.h>
#include <ATen/ops/_values_native.h>
#include <ATen/ops/copy_native.h>
#include <ATen/ops/copy_sparse_to_sparse_native.h>
#include <ATen/ops/dense_dim_native.h>
#include <ATen/ops/empty_native.h>
#include <ATen/ops/is_coalesced_native.h>
#include <ATen/ops/sparse_dim_native.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <sys/mman.h>
#include <torch/library.h>
#include <torch/torch.h>

#include <array>
#include <atomic>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <vector>

#include "paceline/core/device/operands.h"
#include "tests/support/reduce_on_host.h"

namespace paceline::test {
namespace {

constexpr at::DeviceType kType = at::DeviceType::CUDA;
constexpr int kMostLooks = 3;

thread_local c10::DeviceIndex current_device = 0;
thread_local std::map<c10::DeviceIndex, c10::StreamId> current_streams;

std::atomic<std::int64_t> late_copies{0}, waits{0}, allocations{0}, reductions{0}, copied{0};

// --- memory --------------------------------------------------------------------------------------

// Pages that can be read and written while some operator runs. They lie side by side, so that one
// call opens all.
class Pages {
 public:
  static Pages& all() {
    static Pages* const pages = new Pages;  // tensors may outlive every other object
    return *pages;
  }
  void* take(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    const std::size_t length = (bytes + kPage - 1) / kPage * kPage;
    ++allocations;
    std::vector<std::byte*>& spare = spare_[length];
    if (spare.empty()) {
      TORCH_CHECK(used_ + length <= kMost, "CUDA out of memory (a double)");
      spare.push_back(base_ + used_);
      if (running_ > 0) ::mprotect(spare.back(), length, PROT_READ | PROT_WRITE);
      used_ += length;
    }
    std::byte* const at = spare.back();
    spare.pop_back();
    lengths_[at] = length;
    return at;
  }
  bool holds(const std::byte* address) const { return base_ <= address && address < base_ + kMost; }
  void give_back(void* memory) {
    const std::lock_guard lock(mutex_);
    auto* const at = static_cast<std::byte*>(memory);
    if (const auto node = lengths_.extract(at)) spare_[node.mapped()].push_back(at);
  }
  void open() {
    const std::lock_guard lock(mutex_);
    if (running_++ == 0) ::mprotect(base_, used_, PROT_READ | PROT_WRITE);
  }
  void close() {
    const std::lock_guard lock(mutex_);
    if (--running_ == 0) ::mprotect(base_, used_, PROT_NONE);
  }

 private:
  static constexpr std::size_t kPage = 4096, kMost = std::size_t{1} << 30;

  Pages()
      : base_(static_cast<std::byte*>(::mmap(nullptr, kMost, PROT_NONE,
                                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0))) {
    TORCH_CHECK(base_ != MAP_FAILED, "no addresses for the double of a device");
  }

  std::byte* const base_;
  std::mutex mutex_;
  std::size_t used_ = 0;
  std::map<std::byte*, std::size_t> lengths_;
  std::map<std::size_t, std::vector<std::byte*>> spare_;  // by length
  int running_ = 0;
};

struct Opened {
  Opened() { Pages::all().open(); }
  ~Opened() { Pages::all().close(); }
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;
};

struct Memory final : c10::Allocator {
  c10::DataPtr allocate(std::size_t bytes) override {
    void* const at = bytes == 0 ? nullptr : Pages::all().take(bytes);
    return {at, at, &give_back, c10::Device(kType, current_device)};
  }
  static void give_back(void* at) {
    if (at != nullptr) Pages::all().give_back(at);
  }
  c10::DeleterFnPtr raw_deleter() const override { return &give_back; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    const Opened opened;
    std::memcpy(to, from, bytes);
  }
};
Memory memory;

// --- streams and events --------------------------------------------------------------------------

// Late copies, by stream. The streams that compute have none: what they are given is done at once.
class Streams {
 public:
  static Streams& all() {
    static Streams* const streams = new Streams;
    return *streams;
  }
  c10::StreamId make() { return ++last_; }
  std::uint64_t given(c10::StreamId stream) {
    const std::lock_guard lock(mutex_);
    const Queue& queue = queues_[stream];
    return queue.done + queue.copies.size();
  }
  void give(c10::StreamId stream, std::function<void()> copy) {
    const std::lock_guard lock(mutex_);
    queues_[stream].copies.push_back(std::move(copy));
    ++late_copies;
  }
  bool has_done(c10::StreamId stream, std::uint64_t number) {
    const std::lock_guard lock(mutex_);
    return queues_[stream].done >= number;
  }
  void do_until(c10::StreamId stream, std::uint64_t number) {
    const std::lock_guard lock(mutex_);
    Queue& queue = queues_[stream];
    while (queue.done < number && !queue.copies.empty()) {
      const auto copy = std::move(queue.copies.front());
      queue.copies.pop_front();
      copy();
      ++queue.done;
    }
  }
  int draw_looks() {
    const std::lock_guard lock(mutex_);
    return std::uniform_int_distribution(0, kMostLooks)(draw_);
  }

 private:
  struct Queue {
    std::uint64_t done = 0;
    std::deque<std::function<void()>> copies;
  };
  std::mutex mutex_;
  std::mt19937 draw_{4400};
  std::atomic<c10::StreamId> last_{0};
  std::map<c10::StreamId, Queue> queues_;
};

struct Event {
  c10::StreamId stream = 0;
  std::uint64_t number = 0;
  int looks = 0;
};

struct Guard final : c10::impl::DeviceGuardImplInterface {
  at::DeviceType type() const override { return kType; }
  c10::Device exchangeDevice(c10::Device device) const override {
    const c10::Device before = getDevice();
    current_device = device.index();
    return before;
  }
  c10::Device getDevice() const override { return {kType, current_device}; }
  void setDevice(c10::Device device) const override { current_device = device.index(); }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    current_device = device.index();
  }
  c10::DeviceIndex deviceCount() const noexcept override { return kDevices; }

  static c10::Stream stream(c10::Device device, c10::StreamId id) {
    return c10::Stream(c10::Stream::UNSAFE, device, id);
  }
  c10::Stream getStream(c10::Device device) const override {
    return stream(device, current_streams[device.index()]);
  }
  c10::Stream getDefaultStream(c10::Device device) const override { return stream(device, 0); }
  c10::Stream getNewStream(c10::Device device, int) const override {
    return stream(device, Streams::all().make());
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool) const override {
    return stream(device, Streams::all().make());
  }
  c10::Stream exchangeStream(c10::Stream next) const override {
    const c10::Stream before = getStream(next.device());
    current_streams[next.device_index()] = next.id();
    return before;
  }
  void* getStreamNativeHandle(c10::Stream one) const override {
    return reinterpret_cast<void*>(one.id());
  }
  bool queryStream(const c10::Stream&) const override { return true; }
  void synchronizeStream(const c10::Stream& one) const override {
    ++waits;
    Streams::all().do_until(one.id(), ~std::uint64_t{0});
  }

  void record(void** event, const c10::Stream& one, c10::DeviceIndex,
              c10::EventFlag) const override {
    if (*event == nullptr) *event = new Event;
    *static_cast<Event*>(*event) = {one.id(), Streams::all().given(one.id()),
                                    Streams::all().draw_looks()};
  }
  void block(void* event, const c10::Stream& one) const override {
    const auto* const held = static_cast<const Event*>(event);
    if (held->stream != one.id()) Streams::all().do_until(held->stream, held->number);
  }
  bool queryEvent(void* event) const override {
    auto* const asked = static_cast<Event*>(event);
    if (Streams::all().has_done(asked->stream, asked->number)) return true;
    if (asked->looks-- > 0) return false;
    Streams::all().do_until(asked->stream, asked->number);
    return true;
  }
  void destroyEvent(void* event, c10::DeviceIndex) const noexcept override {
    delete static_cast<Event*>(event);
  }
  void synchronizeEvent(void* event) const override {
    ++waits;
    const auto* const awaited = static_cast<const Event*>(event);
    Streams::all().do_until(awaited->stream, awaited->number);
  }
};

// --- operators -----------------------------------------------------------------------------------

// The same memory as a tensor of the CPU.
at::Tensor on_cpu(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.device().is_cuda()) return tensor;
  const auto elements =
      static_cast<std::int64_t>(tensor.storage().nbytes() / tensor.element_size());
  return at::from_blob(tensor.unsafeGetTensorImpl()->unsafe_storage().mutable_data(), {elements},
                       tensor.options().device(at::kCPU).requires_grad(false))
      .as_strided(tensor.sizes(), tensor.strides(), tensor.storage_offset());
}

struct OnDevice {
  explicit OnDevice(const std::optional<at::Device>& device) {
    if (device && device->has_index()) current_device = device->index();
  }
  ~OnDevice() { current_device = before; }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
  const c10::DeviceIndex before = current_device;
};

at::Tensor empty(c10::SymIntArrayRef size, std::optional<at::ScalarType> type,
                 std::optional<at::Layout>, std::optional<at::Device> device, std::optional<bool>,
                 std::optional<at::MemoryFormat> format) {
  const OnDevice on(device);
  return at::detail::empty_generic(C10_AS_INTARRAYREF_SLOW(size), &memory,
                                   c10::DispatchKeySet(c10::DispatchKey::CUDA),
                                   type.value_or(at::kFloat), format);
}

at::Tensor empty_strided(c10::SymIntArrayRef size, c10::SymIntArrayRef stride,
                         std::optional<at::ScalarType> type, std::optional<at::Layout>,
                         std::optional<at::Device> device, std::optional<bool>) {
  const OnDevice on(device);
  return at::detail::empty_strided_generic(
      C10_AS_INTARRAYREF_SLOW(size), C10_AS_INTARRAYREF_SLOW(stride), &memory,
      c10::DispatchKeySet(c10::DispatchKey::CUDA), type.value_or(at::kFloat));
}

bool may_be_late(const at::Tensor& to, const at::Tensor& from) {
  return to.device() != from.device() && to.scalar_type() == from.scalar_type() &&
         to.is_contiguous() && from.is_contiguous() && to.sizes() == from.sizes();
}

// Late copies know addresses alone, as those of a device do: memory that ended is not there.
at::Tensor& copy(at::Tensor& to, const at::Tensor& from, bool non_blocking) {
  const at::Device device = to.device().is_cuda() ? to.device() : from.device();
  const c10::StreamId stream = current_streams[device.index()];
  if (non_blocking && stream != 0 && may_be_late(to, from)) {
    void* const into = to.mutable_data_ptr();
    const void* const of = from.const_data_ptr();
    Streams::all().give(stream, [into, of, bytes = from.nbytes()] {
      const Opened opened;
      std::memcpy(into, of, bytes);
    });
    return to;
  }
  const Opened opened;
  on_cpu(to).copy_(on_cpu(from));
  return to;
}

at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool non_blocking) {
  at::Tensor target = to;
  return copy(target, from, non_blocking);
}

at::Tensor copy_and_resize(const at::Tensor& from, const at::Tensor& to) {
  at::Tensor target = to;
  if (target.sizes() != from.sizes()) target.resize_(from.sizes());
  return copy(target, from, false);
}

at::Scalar local_scalar(const at::Tensor& tensor) {
  if (current_streams[tensor.device().index()] == 0) ++waits;
  const Opened opened;
  return on_cpu(tensor).item();
}

at::Tensor view(const at::Tensor& tensor, c10::SymIntArrayRef size) {
  return at::native::view(tensor, C10_AS_INTARRAYREF_SLOW(size));
}

at::Tensor as_strided(const at::Tensor& tensor, c10::SymIntArrayRef size,
                      c10::SymIntArrayRef stride, std::optional<c10::SymInt> offset) {
  std::optional<std::int64_t> at;
  if (offset) at = offset->guard_int(__FILE__, __LINE__);
  return at::native::as_strided_tensorimpl(tensor, C10_AS_INTARRAYREF_SLOW(size),
                                           C10_AS_INTARRAYREF_SLOW(stride), at);
}

at::Tensor reshape_alias(const at::Tensor& tensor, c10::SymIntArrayRef size,
                         c10::SymIntArrayRef stride) {
  return as_strided(tensor, size, stride, std::nullopt);
}

const at::Tensor& resize(const at::Tensor& tensor, c10::SymIntArrayRef size,
                         std::optional<at::MemoryFormat>) {
  auto* const impl = tensor.unsafeGetTensorImpl();
  impl->set_sizes_contiguous(C10_AS_INTARRAYREF_SLOW(size));
  const std::size_t need = static_cast<std::size_t>(impl->numel()) * tensor.element_size();
  if (tensor.storage().nbytes() >= need) return tensor;
  const OnDevice on(tensor.device());
  impl->unsafe_storage().set_data_ptr_noswap(memory.allocate(need));
  impl->unsafe_storage().set_nbytes(need);
  return tensor;
}

at::Tensor& set_source(at::Tensor& tensor, at::Storage source, c10::SymInt offset,
                       c10::SymIntArrayRef size, c10::SymIntArrayRef stride) {
  auto* const impl = tensor.unsafeGetTensorImpl();
  impl->set_storage_keep_dtype(std::move(source));
  impl->set_sizes_and_strides(C10_AS_INTARRAYREF_SLOW(size), C10_AS_INTARRAYREF_SLOW(stride),
                              offset.guard_int(__FILE__, __LINE__));
  return tensor;
}

void fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  at::native::cpu_fallback(op, stack);
}

// --- sparse tensors ------------------------------------------------------------------------------

// Indices and values are tensors of the device; operators on them run on sparse tensors of the CPU.
at::Tensor empty_sparse(c10::SymIntArrayRef size, std::optional<at::ScalarType> type,
                        std::optional<at::Layout> layout, std::optional<at::Device> device,
                        std::optional<bool> pinned, std::optional<at::MemoryFormat> format) {
  const OnDevice on(device);
  return at::native::empty_sparse_symint(size, type, layout, device, pinned, format);
}

at::Tensor sparse_of(std::int64_t sparse_dimensions, std::int64_t dense_dimensions,
                     c10::SymIntArrayRef size, const at::Tensor& indices, const at::Tensor& values,
                     std::optional<at::ScalarType> type, std::optional<at::Layout> layout,
                     std::optional<at::Device> device, std::optional<bool> pinned,
                     std::optional<bool> is_coalesced) {
  const OnDevice on(values.device());
  return at::native::new_with_dims_and_tensor_sparse_symint(sparse_dimensions, dense_dimensions,
                                                            size, indices, values, type, layout,
                                                            device, pinned, is_coalesced);
}

at::Tensor copy_sparse_and_resize(const at::Tensor& from, const at::Tensor& to) {
  at::Tensor target = to;
  return at::native::copy_sparse_(target, from);
}

void sparse_fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  at::native::cpu_fallback(op, stack, /*error_on_views=*/false, c10::DispatchKey::SparseCPU);
}

TORCH_LIBRARY_IMPL(_, CUDA, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>());
}

TORCH_LIBRARY_IMPL(aten, CUDA, m) {
  m.impl("empty.memory_format", empty);
  m.impl("empty_strided", empty_strided);
  m.impl("_copy_from", copy_from);
  m.impl("copy_", copy);
  m.impl("_copy_from_and_resize", copy_and_resize);
  m.impl("_local_scalar_dense", local_scalar);
  m.impl("view", view);
  m.impl("as_strided", as_strided);
  m.impl("resize_", resize);
  m.impl("set_.source_Storage_storage_offset", set_source);
  m.impl("_reshape_alias", reshape_alias);
}

TORCH_LIBRARY_IMPL(_, SparseCUDA, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&sparse_fallback>());
}

TORCH_LIBRARY_IMPL(aten, SparseCUDA, m) {
  m.impl("empty.memory_format", empty_sparse);
  m.impl("_sparse_coo_tensor_with_dims_and_tensors", sparse_of);
  m.impl("copy_", at::native::copy_sparse_wrapper_);
  m.impl("copy_sparse_to_sparse_", at::native::copy_sparse_);
  m.impl("_copy_from_and_resize", copy_sparse_and_resize);
  m.impl("sparse_dim", at::native::sparse_dim_sparse);
  m.impl("dense_dim", at::native::dense_dim_sparse);
  m.impl("_nnz", at::native::_nnz_sparse);
  m.impl("is_coalesced", at::native::is_coalesced_sparse);
  m.impl("_coalesced_", at::native::_coalesced_sparse_);
  m.impl("_indices", at::native::_indices_sparse);
  m.impl("_values", at::native::_values_sparse);
}

struct CUDAHooks final : at::CUDAHooksInterface {
  explicit CUDAHooks(at::CUDAHooksArgs) {}
  void init() const override {}
  bool hasCUDA() const override { return true; }
  bool isAvailable() const override { return true; }
  bool isBuilt() const override { return true; }
  c10::DeviceIndex deviceCount() const override { return kDevices; }
  int getNumGPUs() const override { return kDevices; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex device) const override {
    static const std::vector<at::Generator> of_devices = [] {
      std::vector<at::Generator> all;
      for (std::uint64_t i = 0; i < kDevices; ++i)
        all.push_back(at::detail::createCPUGenerator(4400 + i));
      return all;
    }();
    return of_devices.at(static_cast<std::size_t>(device < 0 ? test::current_device : device));
  }
};

// --- Paceline's view -----------------------------------------------------------------------------

c10::StreamId id_of(device::Stream stream) {
  return static_cast<c10::StreamId>(reinterpret_cast<std::intptr_t>(stream));
}

using Moment = Event;  // the name means another class within the next one

class DoubledEvent final : public device::Event {
 public:
  Result<> record(device::Stream stream) override {
    event_ = {id_of(stream), Streams::all().given(id_of(stream)), Streams::all().draw_looks()};
    return Done{};
  }
  Result<bool> has_passed() override { return Guard().queryEvent(&event_); }
  Result<> hold(device::Stream stream) override {
    if (event_.stream != id_of(stream)) Streams::all().do_until(event_.stream, event_.number);
    return Done{};
  }

 private:
  Moment event_;
};

class DoubledDevice final : public device::Device {
 public:
  explicit DoubledDevice(int number) : number_(number) {}
  std::string name() const override { return "cuda:" + std::to_string(number_); }
  std::array<std::byte, 16> identity() const override { return {static_cast<std::byte>(number_)}; }
  Result<device::Stream> make_stream() override {
    return reinterpret_cast<device::Stream>(static_cast<std::intptr_t>(Streams::all().make()));
  }
  void end_stream(device::Stream) override {}
  Result<std::unique_ptr<device::Event>> make_event() override {
    return std::unique_ptr<device::Event>(std::make_unique<DoubledEvent>());
  }
  Result<> copy(std::byte* to, const std::byte* from, std::size_t bytes,
                device::Stream stream) override {
    copied += static_cast<std::int64_t>(bytes);
    Streams::all().give(id_of(stream), [=] {
      const Opened opened;
      std::memcpy(to, from, bytes);
    });
    return Done{};
  }
  Result<std::byte*> allocate(std::size_t bytes) override {
    return static_cast<std::byte*>(Pages::all().take(bytes));
  }
  void release(std::byte* given) override { Pages::all().give_back(given); }
  Result<> register_host(MutableBytes) override { return Done{}; }
  void unregister_host(MutableBytes) override {}
  std::string complaint_about(Bytes bytes) const override {
    return Pages::all().holds(bytes.data()) ? "" : "it lies on the host";
  }
  Result<> hold_until(device::Stream, const std::atomic<std::uint32_t>&, std::uint32_t) override {
    return Failure{Fault::io, "streams of this double wait for no word", {}};
  }
  Result<> reduce(const device::Reduction& reduction, device::Stream stream) override {
    Streams::all().give(id_of(stream),
                        [all = device::operands_of(reduction), dtype = reduction.dtype,
                         step = device::step_of(reduction.op)] {
                          const Opened opened;
                          reduce_on_host(dtype, step, all);
                        });
    ++reductions;
    return Done{};
  }
  Result<device::LentMemory> lend(Bytes bytes) const override {
    return device::LentMemory{.address = reinterpret_cast<std::uint64_t>(bytes.data()),
                              .identity = identity()};
  }
  Result<std::byte*> reach(const device::LentMemory& lent, std::size_t) override {
    return reinterpret_cast<std::byte*>(lent.address);
  }

 private:
  const int number_;
};

class DoubledDevices final : public device::Devices {
 public:
  int count() const override { return kDevices; }
  device::Device& device(int number) override {
    return devices_.at(static_cast<std::size_t>(number));
  }

 private:
  std::array<DoubledDevice, kDevices> devices_{DoubledDevice(0), DoubledDevice(1), DoubledDevice(2),
                                               DoubledDevice(3)};
};

}  // namespace

device::Devices& doubled_devices() {
  static DoubledDevices devices;
  return devices;
}

SeenByDouble seen_by_double() {
  return {.late_copies = late_copies,
          .waits = waits,
          .allocations = allocations,
          .reductions = reductions,
          .copied = copied};
}

using CudaGuard = Guard;
using DoubledHooks = CUDAHooks;

}  // namespace paceline::test

namespace at {
using CUDAHooks = paceline::test::DoubledHooks;
REGISTER_CUDA_HOOKS(CUDAHooks)
}  // namespace at

static paceline::test::CudaGuard cuda_guard;
C10_REGISTER_GUARD_IMPL(CUDA, paceline::test::CudaGuard)
