// The door of server: tables of numbers that servers keep, and workers push to and pull from
// (docs/server/).
//
// A table has a rule (rules/: an optimizer over flat memory, a file each) and a model of
// consistency (consistency/: when an update may be seen and a worker goes on, a file each); table/
// says how its memory is cut into ranges and which server has each. machine/ holds the protocol as
// pure machines: a range on its server (range_machine.h), a worker (worker_machine.h), and all that
// a member does (table_machine.h); downpour_course.h says when workers of Downpour push. wire/
// holds its bytes. A Table (server_table.h) runs them on the links of a job: on its servers, which
// run serve() (serve.h) and to which workers declare tables (declaring.h, table_register.h), or
// among its ranks. Start reading at server_table.h, then consistency.h, then range_machine.h.
//
// Several servers may keep each range (range_state.h, range_chain.h): control/ decides which ones,
// in the launcher (controller.h), and tells all members the chains (chain.h).
//
// A sparse table (sparse_table.h) has rows by ids of 48 bits, of which only those are stored that
// somebody has pushed to: sparse/ holds their store (row_store.h), the state of a share of them
// (share_value.h) and its machines.
//
// Full-batch L-BFGS keeps its vectors on servers (lbfgs_on_servers.h); its machines and their bytes
// stand in vectors/: start at lbfgs_coordinator.h.
//
// Servers also sum arrays that workers push, in place of an all_reduce: the machines are
// sum_worker.h and sum_server.h, their bytes sum_piece.h. Within a host workers lend their parts
// (regions/: regions.h, and link_regions.h over the links). The room schedule carries gradients by
// them (table_spec.h, table_numbers.h).
//
// A worker that waits for long asks the servers for whom they wait, and names these: on stderr at
// the stall time, in the failure at the deadline (MachineRun of core/coordination has the words).
#pragma once

#include "paceline/core/server/consistency/consistency.h"
#include "paceline/core/server/lbfgs_on_servers.h"
#include "paceline/core/server/rules/rule.h"
#include "paceline/core/server/serve.h"
#include "paceline/core/server/server_table.h"
#include "paceline/core/server/sparse_table.h"
#include "paceline/core/server/table/table_spec.h"
