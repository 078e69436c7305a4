// The door of coordination: what ranks agree on without an operation that all of them make.
//
// Each is a pure machine (core/machine) that runs among the ranks of a group, beside its
// operations: gossip that waits for nobody (async_gossip.h, gossip_place.h), parts of an epoch that
// rank 0 deals out (tickets.h), and ranks of their own pace that stand still together (halts.h).
// Start reading at tickets.h, then ticket_machine.h.
//
// Waits that ask others whom they wait for have their words here (awaited.h, waiting_text.h).
#pragma once

#include "paceline/core/coordination/tickets.h"
