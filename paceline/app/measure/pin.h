// Binds the calling thread to a processor of its own, as far as there are enough.
#pragma once

#include <sched.h>

#include "paceline/core/job/job.h"

namespace paceline::measure {

// The n-th rank of a job on one host runs on the n-th processor that it may use (round and round).
// Ranks
// on several hosts are left alone, because hosts that are namespaces share their processors. The
// destructor restores the previous binding.
class Pin {
 public:
  explicit Pin(const Job& job);
  ~Pin();
  Pin(const Pin&) = delete;
  Pin& operator=(const Pin&) = delete;

 private:
  cpu_set_t before_ = {};
  bool pinned_ = false;
};

}  // namespace paceline::measure
