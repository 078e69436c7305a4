// A start line: ranks wait here for each other and leave at one moment.
#pragma once

#include <cstdint>

#include "paceline/app/measure/common_memory.h"
#include "paceline/core/collective/group/communicator.h"

namespace paceline::measure {

// Spins on the common memory (yielding where there are more ranks than processors), so that nothing
// of Paceline is in it; without common memory it is the group's barrier.
class StartLine {
 public:
  // Both must outlive it; `memory` may be nullptr.
  StartLine(Communicator& group, const CommonMemory* memory);

  // THROWS Error (timed_out) when a rank does not come for ten minutes.
  void wait();

 private:
  Communicator& group_;
  std::int64_t* counter_;
  std::int64_t target_ = 0;
  const bool yields_;
};

}  // namespace paceline::measure
