// Memory for messages: from the job, which peers on the same host reach without copies, or ordinary
// memory without a job.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "paceline/core/base/bytes.h"
#include "paceline/core/job/job.h"

namespace paceline {

// Zeroed. Shared: tensors over it and operations in flight keep it alive.
class HostMemory {
 public:
  HostMemory(Job* job, std::size_t size) {  // `job` may be null; otherwise it must outlive this
    if (job != nullptr && size > 0) {
      allocation_ = job->allocate(size);
      bytes_ = allocation_.bytes();
    } else {
      ordinary_.resize(size);
      bytes_ = ordinary_;
    }
  }
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;

  MutableBytes bytes() const { return bytes_; }
  bool contains(const void* address) const {
    return address >= bytes_.data() && address < bytes_.data() + bytes_.size();
  }

 private:
  Allocation allocation_;
  std::vector<std::byte> ordinary_;
  MutableBytes bytes_;
};

}  // namespace paceline
