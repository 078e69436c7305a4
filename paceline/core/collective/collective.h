// The door of collective: operations that all ranks of a group carry out together.
//
// A collective is a program (program/program.h), a value that one small file under
// algorithms/<operation>/ returns, out of the pieces in building/; program/algorithm_catalogue.h
// lists them, proof/verify.h proves them, price/cost.h prices them, price/choice.h picks one. A
// Communicator (group/communicator.h) takes the calls (call/); behind it a group (group/group.h)
// makes sure that all ranks have called the same (agreement/) while a carrier (carrier/carrier.h)
// carries the data: by a program over the links, by a board in shared memory, by frames to all, or
// by an engine (engine/engine.h), another project's library. Start reading at group/communicator.h,
// then program/program.h, then group/active_operation.h.
//
// A mixing graph (mixing/mixing_graph.h) says with whom each rank mixes its vector, and with which
// weights; mixing/mixing_program.h makes programs of it, proof/mixing_proof.h proves it.
//
// Other rooms also use: operations, cuts and shapes of programs (operation.h, partition.h, cells.h,
// shapes.h), the order of reproducible sums (balanced_tree.h) and how one is formed of inputs
// that lie in memory (tree_sum.h, combine.h), mixing graphs
// (mixing_graph.h, mixing_program.h, mixing_proof.h), how the messages of programs meet and when
// (matching.h, timeline.h), engines that plugins bring (engine_plugin.h), how a group is opened
// (open_communicator.h), strings and bytes of any length (values.h), the state of a call that
// another room carries (work_state.h), the links of a group for machines (machine_links.h), and the
// kinds of frames that links between ranks must know (collective_frames.h).
#pragma once

#include "paceline/core/collective/call/work.h"
#include "paceline/core/collective/group/communicator.h"
#include "paceline/core/collective/group/values.h"
#include "paceline/core/collective/price/cost.h"
#include "paceline/core/collective/program/algorithm_catalogue.h"
#include "paceline/core/collective/program/program.h"
#include "paceline/core/collective/proof/verify.h"
