// CUDA's devices on a double of the driver, whose devices are memory of this process and whose
// streams work at once. Streams that are late: tests/core/collective/staging/staged_call_test.cpp.
#include "paceline/plugins/cuda/cuda.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string_view>
#include <vector>

#include "paceline/core/job/use_devices.h"
#include "tests/core/collective/worlds.h"
#include "tests/support/conformance.h"
#include "tests/support/misuse.h"
#include "tests/support/process.h"
#include "tests/support/reduce_on_host.h"

namespace paceline::cuda {
namespace {

using collective::testing::run_ranks;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using namespace std::chrono_literals;

// The state of the double; one test at a time.
std::atomic<int> devices_seen = 2, contexts = 0, objects = 0;
std::atomic<CUresult> answer = CUDA_SUCCESS;  // to a copy
std::atomic<int> launches = 0, opened = 0;
std::atomic<std::size_t> lent_bytes = std::size_t{1} << 40;
thread_local int entered = 0;

// The kernels of kernels.cu.
constexpr std::array<std::pair<std::string_view, Dtype>, 10> kKernels = {
    {{"reduce_f64", Dtype::f64},
     {"reduce_f32", Dtype::f32},
     {"reduce_f16", Dtype::f16},
     {"reduce_bf16", Dtype::bf16},
     {"reduce_i64", Dtype::i64},
     {"reduce_i32", Dtype::i32},
     {"reduce_i16", Dtype::i16},
     {"reduce_i8", Dtype::i8},
     {"reduce_u8", Dtype::u8},
     {"reduce_bool", Dtype::boolean}}};

template <typename Handle>
CUresult make(Handle* handle) {
  if (entered == 0) return CUDA_ERROR_INVALID_CONTEXT;
  ++objects;
  *handle = reinterpret_cast<Handle>(new int);
  return CUDA_SUCCESS;
}
template <typename Handle>
CUresult end(Handle handle) {
  if (entered == 0) return CUDA_ERROR_INVALID_CONTEXT;
  --objects;
  delete reinterpret_cast<int*>(handle);
  return CUDA_SUCCESS;
}
CUresult in_context() {
  return entered > 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

Driver fake_driver() {
  return {
      .init = [](unsigned int) { return devices_seen < 0 ? CUDA_ERROR_NO_DEVICE : CUDA_SUCCESS; },
      .count_devices =
          [](int* count) {
            *count = devices_seen;
            return CUDA_SUCCESS;
          },
      .get_device =
          [](CUdevice* device, int number) {
            *device = number;
            return CUDA_SUCCESS;
          },
      .retain_context =
          [](CUcontext* context, CUdevice) {
            ++contexts;
            *context = reinterpret_cast<CUcontext>(1);
            return CUDA_SUCCESS;
          },
      .push_context =
          [](CUcontext) {
            ++entered;
            return CUDA_SUCCESS;
          },
      .pop_context =
          [](CUcontext*) {
            --entered;
            return CUDA_SUCCESS;
          },
      .create_stream = [](CUstream* stream, unsigned int) { return make(stream); },
      .destroy_stream = [](CUstream stream) { return end(stream); },
      .create_event = [](CUevent* event, unsigned int) { return make(event); },
      .destroy_event = [](CUevent event) { return end(event); },
      .record_event = [](CUevent, CUstream) { return in_context(); },
      .query_event = [](CUevent) { return in_context(); },
      .wait_event = [](CUstream, CUevent, unsigned int) { return in_context(); },
      .allocate =
          [](CUdeviceptr* memory, std::size_t bytes) {
            *memory = reinterpret_cast<CUdeviceptr>(::operator new(bytes));
            return in_context();
          },
      .release =
          [](CUdeviceptr memory) {
            ::operator delete(reinterpret_cast<void*>(memory));
            return in_context();
          },
      .copy =
          [](CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream) {
            if (answer != CUDA_SUCCESS) return answer.load();
            std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), bytes);
            return in_context();
          },
      .register_host = [](void*, std::size_t, unsigned int) { return in_context(); },
      .unregister_host = [](void*) { return in_context(); },
      .get_attribute =
          [](void* into, CUpointer_attribute what, CUdeviceptr) {
            if (what == CU_POINTER_ATTRIBUTE_MEMORY_TYPE)
              *static_cast<CUmemorytype*>(into) = CU_MEMORYTYPE_DEVICE;
            else *static_cast<int*>(into) = 0;
            return CUDA_SUCCESS;
          },
      .get_uuid =
          [](CUuuid* uuid, CUdevice device) {
            std::memset(uuid, 1 + device, sizeof *uuid);
            return CUDA_SUCCESS;
          },
      .wait_value = [](CUstream, CUdeviceptr, cuuint32_t, unsigned int) { return in_context(); },
      .device_address =
          [](CUdeviceptr* address, void* host, unsigned int) {
            *address = reinterpret_cast<CUdeviceptr>(host);
            return in_context();
          },
      .get_range =
          [](CUdeviceptr* base, std::size_t* bytes, CUdeviceptr address) {
            *base = address;
            *bytes = lent_bytes;
            return in_context();
          },
      .get_handle =
          [](CUipcMemHandle* handle, CUdeviceptr address) {
            std::memcpy(handle, &address, sizeof address);
            return in_context();
          },
      .open_handle =
          [](CUdeviceptr* address, CUipcMemHandle handle, unsigned int) {
            ++opened;
            std::memcpy(address, &handle, sizeof *address);
            return in_context();
          },
      .load_module = [](CUmodule*, const void*) { return in_context(); },
      .get_function =
          [](CUfunction* function, CUmodule, const char* name) {
            const auto known = std::ranges::find(kKernels, std::string_view(name),
                                                 [](const auto& one) { return one.first; });
            if (known == kKernels.end()) return CUDA_ERROR_NOT_FOUND;
            *function = reinterpret_cast<CUfunction>(1 + (known - kKernels.begin()));
            return in_context();
          },
      .launch =
          [](CUfunction function, unsigned int, unsigned int, unsigned int, unsigned int,
             unsigned int, unsigned int, unsigned int, CUstream, void** arguments, void**) {
            ++launches;
            const auto number = reinterpret_cast<std::uintptr_t>(function) - 1;
            test::reduce_on_host(kKernels.at(number).second,
                                 *static_cast<device::Step*>(arguments[1]),
                                 *static_cast<device::Operands*>(arguments[0]));
            return in_context();
          },
      .text_of =
          [](CUresult, const char** text) {
            *text = "an illegal memory access was encountered";
            return CUDA_SUCCESS;
          },
  };
}

class CudaDevices : public ::testing::Test {
 protected:
  void SetUp() override {
    devices_seen = 2;
    contexts = objects = launches = opened = 0;
    lent_bytes = std::size_t{1} << 40;
    answer = CUDA_SUCCESS;
  }
  void TearDown() override { EXPECT_EQ(objects, 0); }

  void run_with(device::Devices& devices, int ranks, const std::function<void(Job&)>& body) const {
    const LocalWorldOptions options{.reproducible = false, .operation_timeout = 60s};
    run_ranks(ranks, options, [&](Job& job) {
      job::use_devices(job, devices, /*all_buffers=*/true);
      body(job);
    });
  }
};

TEST_F(CudaDevices, CarryAllClaims) {
  const auto devices = make_devices(fake_driver()).value();
  for (const test::Claim& claim : test::conformance()) {
    SCOPED_TRACE(claim.name);
    run_with(*devices, 3, [&](Job& job) { claim.check(job, job.world()); });
  }
  EXPECT_EQ(contexts, 1) << "the other device is not used, and has no context";
  EXPECT_GT(launches, 0) << "sums are made by kernels";
}

// --- kernels -------------------------------------------------------------------------------------

TEST_F(CudaDevices, HaveAKernelForEachType) {
  std::ifstream file(test::source("paceline/plugins/cuda/kernels.ptx"));
  std::stringstream text;
  text << file.rdbuf();
  for (const auto& [name, dtype] : kKernels) {
    EXPECT_EQ(name, fmt::format("reduce_{}", name_of(dtype)));
    EXPECT_THAT(text.str(), HasSubstr(fmt::format(".visible .entry {}(", name)));
  }
  EXPECT_THAT(text.str(), Not(HasSubstr("fma.rn"))) << "it has other bits than a sum and a product";
}

TEST_F(CudaDevices, HaveTheKernelsThatTheirSourceMakes) {
  const test::Finished check = test::run({.command = {test::source("scripts/kernels"), "--check"}});
  if (check.error.find("clang++-14 is missing") != std::string::npos)
    GTEST_SKIP() << "NOT TESTED: clang++-14 is not installed";
  EXPECT_EQ(check.exit_code, 0) << check.error;
}

// --- memory of other ranks -----------------------------------------------------------------------

TEST_F(CudaDevices, FindMemoryOfTheSameProcessAtItsAddress) {
  const auto devices = make_devices(fake_driver()).value();
  device::Device& device = devices->device(0);
  const device::Stream stream = device.make_stream().value();
  std::vector<std::byte> memory(100);
  const device::LentMemory lent = device.lend(memory).value();
  EXPECT_EQ(device.reach(lent, 100).value(), memory.data());
  EXPECT_EQ(opened, 0);
  EXPECT_NE(lent.identity, devices->device(1).identity());
  device.end_stream(stream);
}

TEST_F(CudaDevices, OpenAnAllocationOfAnotherProcessOnce) {
  const auto devices = make_devices(fake_driver()).value();
  device::Device& device = devices->device(0);
  const device::Stream stream = device.make_stream().value();
  std::vector<std::byte> memory(100);
  device::LentMemory lent = device.lend(memory).value();
  ++lent.process;
  lent.offset = 30;
  lent_bytes = 100;
  for (int i = 0; i < 3; ++i) EXPECT_EQ(device.reach(lent, 70).value(), memory.data() + 30);
  EXPECT_EQ(opened, 1);
  const auto beyond = device.reach(lent, 71);
  ASSERT_FALSE(beyond);
  EXPECT_THAT(beyond.error().what, HasSubstr("are not within the 100 bytes that were lent"));
  device.end_stream(stream);
}

TEST_F(CudaDevices, NoDeviceIsToldWithTheRemedy) {
  for (const int seen : {0, -1}) {
    devices_seen = seen;
    const auto devices = make_devices(fake_driver());
    ASSERT_FALSE(devices);
    EXPECT_EQ(devices.error().fault, Fault::misuse);
    EXPECT_THAT(devices.error().what,
                AllOf(HasSubstr("there is no CUDA device here"), HasSubstr("nvidia-smi")));
  }
}

TEST_F(CudaDevices, ADriverThatIsMissingIsToldWithTheRemedy) {
  const auto driver = load_driver();
  if (driver) GTEST_SKIP() << "NOT TESTED: a CUDA device is here";
  EXPECT_EQ(driver.error().fault, Fault::misuse);
  EXPECT_THAT(driver.error().what, AllOf(HasSubstr("libcuda.so.1"), HasSubstr("to the host")));
}

TEST_F(CudaDevices, AFailureNamesDeviceAndCall) {
  const auto devices = make_devices(fake_driver()).value();
  run_with(*devices, 1, [&](Job& job) {
    std::vector<float> values(10, 1);
    answer = CUDA_ERROR_ILLEGAL_ADDRESS;
    const Failure failure =
        collective::testing::failure_of([&] { job.world().all_reduce(buffer_of(values)).wait(); });
    answer = CUDA_SUCCESS;
    EXPECT_THAT(failure.what,
                AllOf(HasSubstr("cuda:0"), HasSubstr("cuMemcpyAsync"), HasSubstr("illegal")));
  });
}

TEST_F(CudaDevices, MemoryOfAnotherDeviceIsTold) {
  const auto devices = make_devices(fake_driver()).value();
  const std::vector<std::byte> memory(16);
  const auto stream = devices->device(1).make_stream().value();
  EXPECT_EQ(devices->device(0).complaint_about(memory), "");
  EXPECT_EQ(devices->device(1).complaint_about(memory), "it lies in that of cuda:0");
  devices->device(1).end_stream(stream);
}

}  // namespace
}  // namespace paceline::cuda
