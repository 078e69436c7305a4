#include "paceline/plugins/cuda/kernels.h"

#include <algorithm>
#include <string>

#include "paceline/core/device/operands.h"
#include "paceline/plugins/cuda/kernels_text.h"  // made of kernels.ptx by CMake

namespace paceline::cuda {
namespace {

constexpr unsigned int kThreads = 256;
// Enough for the memory of the largest devices; more would take turns.
constexpr std::size_t kMostBlocks = 2048;

}  // namespace

// The driver compiles the text when it is used first.
Result<CUfunction> Kernels::function(const Context& context, Dtype dtype) {
  const std::lock_guard lock(mutex_);
  CUfunction& known = functions_.at(static_cast<std::size_t>(dtype));
  if (known != nullptr) return known;
  const Driver& driver = context.driver;
  if (module_ == nullptr) {
    auto loaded = context.checked("cuModuleLoadData", driver.load_module(&module_, kKernelsText));
    if (!loaded) return loaded.error();
  }
  const std::string name = fmt::format("reduce_{}", name_of(dtype));
  auto found = context.checked(name.c_str(), driver.get_function(&known, module_, name.c_str()));
  if (!found) return found.error();
  return known;
}

Result<> Kernels::launch(const Context& context, const device::Reduction& reduction,
                         CUstream stream) {
  if (reduction.count == 0) return Done{};
  auto kernel = function(context, reduction.dtype);
  if (!kernel) return kernel.error();
  device::Operands operands = device::operands_of(reduction);
  device::Step step = device::step_of(reduction.op);
  void* arguments[] = {&operands, &step};
  const std::size_t blocks = std::min((reduction.count + kThreads - 1) / kThreads, kMostBlocks);
  return context.checked("cuLaunchKernel",
                         context.driver.launch(*kernel, static_cast<unsigned int>(blocks), 1, 1,
                                               kThreads, 1, 1, 0, stream, arguments, nullptr));
}

}  // namespace paceline::cuda
