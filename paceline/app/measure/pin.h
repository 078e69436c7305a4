// The calling thread on a processor of its own, as far as there are enough.
#pragma once

#include <sched.h>

namespace paceline::measure {

// The n-th process of a host runs on the n-th processor that it may use (round and round). What was
// before is restored by the destructor.
class Pin {
 public:
  explicit Pin(int local_rank);
  ~Pin();
  Pin(const Pin&) = delete;
  Pin& operator=(const Pin&) = delete;

 private:
  cpu_set_t before_ = {};
  bool pinned_ = false;
};

}  // namespace paceline::measure
