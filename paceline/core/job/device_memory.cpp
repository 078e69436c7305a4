#include "paceline/core/job/device_memory.h"

#include <algorithm>
#include <thread>

#include "paceline/core/base/check.h"
#include "paceline/core/job/job_impl.h"

namespace paceline::job {
namespace {

template <typename Value>
Value must_have(Result<Value> result) {
  if (!result) throw Error(result.error());
  return *std::move(result);
}

device::Device& device_of(Job& job, int number) {
  device::Devices& devices = job.impl().devices();
  PACELINE_CHECK(number >= 0 && number < devices.count(),
                 "there is no device {} among the {} that this process sees", number,
                 devices.count());
  return devices.device(number);
}

}  // namespace

DeviceMemory::DeviceMemory(Job& job, int device, std::size_t bytes)
    : device_(device_of(job, device)),
      number_(device),
      stream_(must_have(device_.make_stream())),
      copied_(must_have(device_.make_event())),
      memory_(must_have(device_.allocate(std::max<std::size_t>(bytes, 1)))) {}

DeviceMemory::~DeviceMemory() {
  device_.release(memory_);
  device_.end_stream(stream_);
}

Buffer DeviceMemory::buffer(std::size_t offset, std::size_t count, Dtype dtype) const {
  return {memory_ + offset,
          count,
          dtype,
          {.kind = Memory::Kind::cuda, .device = number_, .stream = stream_}};
}

void DeviceMemory::copy(std::byte* to, const std::byte* from, std::size_t bytes) const {
  must_have(device_.copy(to, from, bytes, stream_));
  must_have(copied_->record(stream_));
  while (!must_have(copied_->has_passed())) std::this_thread::yield();
}

void DeviceMemory::write(Bytes from) {
  copy(memory_, from.data(), from.size());
}

void DeviceMemory::read(MutableBytes into) const {
  copy(into.data(), memory_, into.size());
}

}  // namespace paceline::job
