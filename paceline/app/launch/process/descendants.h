// Finds and kills the processes below this one.
//
// A process that is a "child subreaper" inherits the processes that its descendants leave behind,
// even those in a session of their own (setsid, `start_new_session=True`). So a process that kills
// its children until there are none kills everything below itself. Only own unreaped children are
// ever signalled: their process ids cannot have been given to another process.
#pragma once

#include <sys/types.h>

#include <functional>
#include <vector>

#include "paceline/core/base/deadline.h"

namespace paceline::launch {

void become_subreaper();

// REQUIRES a process with one thread.
std::vector<pid_t> children();

// Sends SIGKILL to every child that `spared` does not name, and reaps it, until there are none or
// the deadline passes. `on_reaped(pid, wait status)` is called for each. Returns whether none is
// left.
bool kill_descendants(Deadline deadline, const std::vector<pid_t>& spared = {},
                      const std::function<void(pid_t, int)>& on_reaped = {});

}  // namespace paceline::launch
