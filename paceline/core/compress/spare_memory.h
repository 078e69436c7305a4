// Memory that averagings use in turn. The next residual of a tensor is made beside the present one,
// whose place is the next tensor's then. Were it the allocator's in between, which keeps memory for
// each thread apart and gives whole stretches of it back, a rank would hold twice its residuals,
// and the system would clear pages again and again.
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
  // Room for so many values, and up to an eighth more; what is in it is undefined.
  std::unique_ptr<float[]> take(std::size_t count);
  // What take() returned for as many values.
  void give(std::unique_ptr<float[]> memory, std::size_t count);

  // How often there was none to take, and it was allocated.
  std::size_t allocated() const;

 private:
  mutable std::mutex mutex_;
  std::map<std::size_t, std::vector<std::unique_ptr<float[]>>> spare_;  // by room
  std::size_t allocated_ = 0;
};

}  // namespace paceline::compress
