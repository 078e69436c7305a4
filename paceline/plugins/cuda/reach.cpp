#include "paceline/plugins/cuda/reach.h"

#include <cstring>
#include <random>

namespace paceline::cuda {
namespace {

std::uint64_t own_process() {
  static const std::uint64_t drawn = [] {
    std::random_device draw;
    return std::uint64_t{draw()} << 32 | draw();
  }();
  return drawn;
}

}  // namespace

Result<device::LentMemory> Reach::lend(const Context& context, Bytes memory) {
  CUdeviceptr base = 0;
  std::size_t length = 0;
  auto found = context.checked("cuMemGetAddressRange",
                               context.driver.get_range(&base, &length, address(memory.data())));
  if (!found) return found.error();
  CUipcMemHandle handle = {};
  auto named = context.checked("cuIpcGetMemHandle", context.driver.get_handle(&handle, base));
  if (!named) return named.error();
  device::LentMemory lent{.process = own_process(),
                          .address = address(memory.data()),
                          .offset = address(memory.data()) - base};
  static_assert(sizeof handle == sizeof lent.handle);
  std::memcpy(lent.handle.data(), &handle, sizeof handle);
  return lent;
}

Result<std::byte*> Reach::find(const Context& context, const device::LentMemory& memory,
                               std::size_t bytes) {
  if (memory.process == own_process()) return reinterpret_cast<std::byte*>(memory.address);
  const std::lock_guard lock(mutex_);
  CUdeviceptr& base = opened_[memory.handle];
  if (base == 0) {
    CUipcMemHandle handle = {};
    std::memcpy(&handle, memory.handle.data(), sizeof handle);
    auto opened = context.checked(
        "cuIpcOpenMemHandle",
        context.driver.open_handle(&base, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    if (!opened) {
      opened_.erase(memory.handle);
      return opened.error();
    }
  }
  CUdeviceptr begin = 0;
  std::size_t length = 0;
  auto told =
      context.checked("cuMemGetAddressRange", context.driver.get_range(&begin, &length, base));
  if (!told) return told.error();
  if (memory.offset > length || bytes > length - memory.offset) {
    return Failure{Fault::io,
                   fmt::format("cuda:{}: {} bytes at {} are not within the {} bytes that were lent",
                               context.number, bytes, memory.offset, length),
                   {}};
  }
  return reinterpret_cast<std::byte*>(base + memory.offset);
}

}  // namespace paceline::cuda
