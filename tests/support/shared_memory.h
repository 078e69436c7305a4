// Shared memory in the form in which links and boards hold it.
#pragma once

#include <memory>

#include "paceline/core/transport/memory/shared_memory.h"

namespace paceline::test {

inline std::shared_ptr<const transport::SharedMemory> shared_memory_of(std::size_t bytes) {
  return std::make_shared<const transport::SharedMemory>(
      transport::SharedMemory::create(bytes).value());
}

}  // namespace paceline::test
