#include "paceline/plugins/cuda/cuda.h"

#include <fmt/format.h>

#include <cstring>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "paceline/plugins/cuda/context.h"
#include "paceline/plugins/cuda/kernels.h"
#include "paceline/plugins/cuda/reach.h"

namespace paceline::cuda {
namespace {

class CudaEvent final : public device::Event {
 public:
  CudaEvent(const Context& context, CUevent event) : context_(context), event_(event) {}
  ~CudaEvent() override {
    const Current current = context_.enter();
    context_.driver.destroy_event(event_);
  }

  Result<> record(device::Stream stream) override {
    const Current current = context_.enter();
    return context_.checked("cuEventRecord",
                            context_.driver.record_event(event_, static_cast<CUstream>(stream)));
  }
  Result<bool> has_passed() override {
    const Current current = context_.enter();
    const CUresult code = context_.driver.query_event(event_);
    if (code == CUDA_ERROR_NOT_READY) return false;
    if (auto fine = context_.checked("cuEventQuery", code); !fine) return fine.error();
    return true;
  }
  Result<> hold(device::Stream stream) override {
    const Current current = context_.enter();
    return context_.checked("cuStreamWaitEvent",
                            context_.driver.wait_event(static_cast<CUstream>(stream), event_, 0));
  }

 private:
  const Context& context_;
  const CUevent event_;
};

class CudaDevice final : public device::Device {
 public:
  explicit CudaDevice(Context context) : context_(std::move(context)) {}

  std::string name() const override { return fmt::format("cuda:{}", context_.number); }
  std::array<std::byte, 16> identity() const override {
    CUdevice device = 0;
    CUuuid uuid = {};
    std::array<std::byte, 16> identity = {};
    if (context_.driver.get_device(&device, context_.number) == CUDA_SUCCESS &&
        context_.driver.get_uuid(&uuid, device) == CUDA_SUCCESS)
      std::memcpy(identity.data(), &uuid, identity.size());
    return identity;
  }

  // Work in it does not wait for that of the usual stream, nor the reverse. A context takes some
  // 500 MB of the device, so that a device of which nobody makes a stream has none.
  Result<device::Stream> make_stream() override {
    if (auto begun = begin(); !begun) return begun.error();
    const Current current = context_.enter();
    CUstream stream = nullptr;
    const CUresult code = context_.driver.create_stream(&stream, CU_STREAM_NON_BLOCKING);
    if (auto made = context_.checked("cuStreamCreate", code); !made) return made.error();
    return static_cast<device::Stream>(stream);
  }
  void end_stream(device::Stream stream) override {
    const Current current = context_.enter();
    context_.driver.destroy_stream(static_cast<CUstream>(stream));
  }

  Result<std::unique_ptr<device::Event>> make_event() override {
    const Current current = context_.enter();
    CUevent event = nullptr;
    const CUresult code = context_.driver.create_event(&event, CU_EVENT_DISABLE_TIMING);
    if (auto made = context_.checked("cuEventCreate", code); !made) return made.error();
    return std::unique_ptr<device::Event>(std::make_unique<CudaEvent>(context_, event));
  }

  Result<std::byte*> allocate(std::size_t bytes) override {
    const Current current = context_.enter();
    CUdeviceptr memory = 0;
    auto made = context_.checked("cuMemAlloc", context_.driver.allocate(&memory, bytes));
    if (!made) return made.error();
    return reinterpret_cast<std::byte*>(memory);
  }
  void release(std::byte* memory) override {
    const Current current = context_.enter();
    context_.driver.release(address(memory));
  }

  // The driver knows by the addresses which of the two is the host's.
  Result<> copy(std::byte* to, const std::byte* from, std::size_t bytes,
                device::Stream stream) override {
    const Current current = context_.enter();
    return context_.checked("cuMemcpyAsync", context_.driver.copy(address(to), address(from), bytes,
                                                                  static_cast<CUstream>(stream)));
  }

  Result<> register_host(MutableBytes memory) override {
    const Current current = context_.enter();
    return context_.checked(
        "cuMemHostRegister",
        context_.driver.register_host(memory.data(), memory.size(),
                                      CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP));
  }
  void unregister_host(MutableBytes memory) override {
    const Current current = context_.enter();
    context_.driver.unregister_host(memory.data());
  }

  std::string complaint_about(Bytes memory) const override {
    const Current current = context_.enter();
    CUmemorytype type = CU_MEMORYTYPE_HOST;
    int number = -1;
    const auto ask = [&](void* into, CUpointer_attribute what) {
      return context_.driver.get_attribute(into, what, address(memory.data())) == CUDA_SUCCESS;
    };
    if (!ask(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE) || type != CU_MEMORYTYPE_DEVICE)
      return "it lies on the host";
    if (!ask(&number, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL) || number == context_.number) return {};
    return fmt::format("it lies in that of cuda:{}", number);
  }

  Result<> hold_until(device::Stream stream, const std::atomic<std::uint32_t>& word,
                      std::uint32_t value) override {
    const Current current = context_.enter();
    CUdeviceptr at = 0;
    auto* const host = const_cast<std::atomic<std::uint32_t>*>(&word);
    const CUresult code = context_.driver.device_address(&at, host, 0);
    if (auto found = context_.checked("cuMemHostGetDevicePointer", code); !found) return found;
    return context_.checked("cuStreamWaitValue32",
                            context_.driver.wait_value(static_cast<CUstream>(stream), at, value,
                                                       CU_STREAM_WAIT_VALUE_GEQ));
  }
  Result<> reduce(const device::Reduction& reduction, device::Stream stream) override {
    const Current current = context_.enter();
    return kernels_.launch(context_, reduction, static_cast<CUstream>(stream));
  }
  Result<device::LentMemory> lend(Bytes memory) const override {
    const Current current = context_.enter();
    auto lent = Reach::lend(context_, memory);
    if (lent) lent->identity = identity();
    return lent;
  }
  Result<std::byte*> reach(const device::LentMemory& memory, std::size_t bytes) override {
    const Current current = context_.enter();
    return reach_.find(context_, memory, bytes);
  }

 private:
  Result<> begin() {
    const std::lock_guard lock(mutex_);
    if (context_.context != nullptr) return Done{};
    CUdevice device = 0;
    const Driver& driver = context_.driver;
    if (auto got = context_.checked("cuDeviceGet", driver.get_device(&device, context_.number));
        !got)
      return got;
    return context_.checked("cuDevicePrimaryCtxRetain",
                            driver.retain_context(&context_.context, device));
  }

  std::mutex mutex_;
  Context context_;
  Kernels kernels_;
  Reach reach_;
};

class CudaDevices final : public device::Devices {
 public:
  explicit CudaDevices(std::vector<std::unique_ptr<CudaDevice>> devices)
      : devices_(std::move(devices)) {}
  int count() const override { return static_cast<int>(devices_.size()); }
  device::Device& device(int number) override {
    return *devices_[static_cast<std::size_t>(number)];
  }

 private:
  const std::vector<std::unique_ptr<CudaDevice>> devices_;
};

Failure no_device(const std::string& why) {
  return {
      Fault::misuse,
      fmt::format("there is no CUDA device here ({}): see that `nvidia-smi` lists one, and that "
                  "CUDA_VISIBLE_DEVICES does not hide it",
                  why),
      {}};
}

}  // namespace

Result<std::unique_ptr<device::Devices>> make_devices(const Driver& driver) {
  int count = 0;
  const Context none{.driver = driver, .number = 0};
  if (auto begun = none.checked("cuInit", driver.init(0)); !begun)
    return no_device(begun.error().what);
  if (auto told = none.checked("cuDeviceGetCount", driver.count_devices(&count)); !told)
    return no_device(told.error().what);
  if (count == 0) return no_device("cuDeviceGetCount finds none");
  std::vector<std::unique_ptr<CudaDevice>> devices;
  for (int number = 0; number < count; ++number)
    devices.push_back(std::make_unique<CudaDevice>(Context{.driver = driver, .number = number}));
  return std::unique_ptr<device::Devices>(std::make_unique<CudaDevices>(std::move(devices)));
}

}  // namespace paceline::cuda
