// Servers that are started again while the job runs come late: each connects to all members that
// live, which listen for that (Environment::replicas).
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "paceline/core/base/deadline.h"
#include "paceline/core/job/job_impl.h"
#include "paceline/core/membership/handshake/handshake.h"
#include "paceline/core/transport/shared/shared_medium.h"

namespace paceline::job {

// Lets them in as long as the Job lives. The link that it makes is there before the newcomer hears
// so: over shared memory where that is the way in which the newcomer came, else over TCP, also
// where others talk over a fabric. THREAD: the reactor's driver.
class LateMembers {
 public:
  // `own`: how this member answers those who come to `listeners`.
  LateMembers(Job::Impl& job, const membership::Hello& own,
              std::vector<transport::FileDescriptor> listeners, std::size_t ring_bytes);
  LateMembers(const LateMembers&) = delete;
  LateMembers& operator=(const LateMembers&) = delete;

 private:
  bool may_come(const membership::Hello& hello) const;
  void accepted(transport::FileDescriptor socket, const membership::Hello& hello);

  Job::Impl& job_;
  const int founders_;
  const std::size_t ring_bytes_;
  membership::Acceptor acceptor_;
};

// The newcomer's side of a connection that has passed the handshake: waits until the member has
// made its link. Over shared memory it returns what to make the own link of, over TCP nothing. Calls
// `heed_ends` now and then. The failure is peer_lost: the member has not let it in.
Result<std::unique_ptr<transport::SharedMedium>> await_admission(
    transport::FileDescriptor& socket, bool memory, Deadline deadline,
    const std::function<void()>& heed_ends);

}  // namespace paceline::job
