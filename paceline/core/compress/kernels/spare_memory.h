// Memory that averagings use in turn. The next residual of a tensor is made beside the present one,
// whose memory then serves the next tensor. The allocator keeps memory for each thread apart and
// returns long stretches of it to the system: with it, a rank would hold twice its residuals, and
// the system would clear pages again and again.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace paceline::compress {

// THREAD: any.
class SpareMemory {
 public:
  // Returns room for `count` values and up to an eighth more, uninitialised.
  std::unique_ptr<float[]> take(std::size_t count);
  // Takes back memory that take() returned for `count` values.
  void give(std::unique_ptr<float[]> memory, std::size_t count);

  // How often take() found no spare memory and allocated.
  std::size_t allocated() const;

 private:
  mutable std::mutex mutex_;
  std::map<std::size_t, std::vector<std::unique_ptr<float[]>>> spare_;  // keyed by room, in values
  std::size_t allocated_ = 0;
};

}  // namespace paceline::compress
