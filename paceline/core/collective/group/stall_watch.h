// StallWatch: looks whether the operation of a group makes progress, and has the words for one that
// waits: for whom, and what to look at.
//
// THREAD: reactor's driver only.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "paceline/core/base/deadline.h"
#include "paceline/core/collective/call/members.h"
#include "paceline/core/collective/group/active_operation.h"

namespace paceline::collective {

class StallWatch {
 public:
  // `members` outlives it.
  StallWatch(const Members& members, std::chrono::milliseconds stall_time)
      : members_(members), stall_time_(stall_time) {}

  // Progress is looked for so often in each stall time: the warning comes at most a tenth of it
  // late.
  static constexpr int kLooks = 10;
  std::chrono::milliseconds between_looks() const { return stall_time_ / kLooks; }

  // An operation begins. `movement` grows while its data comes, goes or is worked on.
  void begin(std::uint64_t movement);
  // Whether its stall has still to be told, and the moment of the next look.
  bool looks() const { return !is_told_; }
  Clock::time_point next_look() const { return looked_at_ + between_looks(); }
  // Whether it has made no progress for the stall time, and that was not told.
  bool is_stalled(std::uint64_t movement, Clock::time_point now);

  // Warns that this rank `waits`, as "rank 0 waits in .. for ..".
  void tell(const std::string& waits) const;
  // The same for the operation, once. `pages`: the ranks whose shared memory it may wait for.
  void tell(const ActiveOperation& operation, const std::vector<int>& pages);
  // The operation has waited until its deadline, or until that of a call `behind` it, which is told
  // in words.
  Failure overdue(const ActiveOperation& operation, const std::vector<int>& pages,
                  const std::string& behind) const;

 private:
  std::string wait_of(const ActiveOperation& operation, const std::vector<int>& pages) const;
  std::string missing_ranks(const std::vector<int>& missing) const;
  std::string silent_hosts() const;

  const Members& members_;
  const std::chrono::milliseconds stall_time_;
  std::uint64_t moved_ = 0;  // when it was looked at last
  Clock::time_point looked_at_ = {}, quiet_since_ = {};
  bool is_told_ = false;
};

}  // namespace paceline::collective
