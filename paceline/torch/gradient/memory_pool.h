// Memory that is given back and taken again, many times in a step.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "paceline/core/collective/group/communicator.h"

namespace paceline::parallel {

// It holds about as much as was in use at once, so that later steps allocate nothing. THREAD: one.
// `group` outlives the pool; the memory may outlive both.
class MemoryPool {
 public:
  explicit MemoryPool(const Communicator& group) : group_(group) {}

  // At least so many bytes, of any content. THROWS Error (io).
  std::shared_ptr<Allocation> take(std::size_t bytes);
  // `bytes`: as it was taken. While other code holds it, it is not taken again.
  void give_back(std::shared_ptr<Allocation> memory, std::size_t bytes);

  // The most bytes in use at once since the last call.
  std::size_t take_peak();
  std::size_t held() const;  // bytes in use, and those that lie ready

 private:
  const Communicator& group_;
  std::vector<std::shared_ptr<Allocation>> spare_;
  std::size_t used_ = 0, peak_ = 0;
  std::size_t held_ = 0, most_ = 0;  // allocated now; in use at once, ever
};

}  // namespace paceline::parallel
