// The door of coordination: pure machines (core/machine) among members of a job, beside its
// collective operations.
//
// MachineRun (machine_run.h) runs one on real links, for this room and for all above: how a machine
// is told something, how a thread waits for it, and what a wait that gets long says (awaited.h has
// the words, missing_ranks.h asks rank 0 where it alone knows, link_movement.h excuses those that a
// slow network keeps from answering). The methods here need no operation that all ranks make: gossip
// that waits for nobody (async_gossip.h, gossip_place.h), parts of an epoch that rank 0 deals out
// (tickets.h), and ranks of their own pace that stand still together (pause_point.h). A partial
// barrier (partial_barrier.h) tells when workers that do not wait for all others go on. Start reading
// at machine_run.h, then ticket_machine.h and tickets.h.
#pragma once

#include "paceline/core/coordination/machine_run.h"
#include "paceline/core/coordination/tickets.h"
