// The door of machines: solvers whose ranks do not wait for each other, as pure machines
// (core/machine).
//
// AsyncAdmm (async_admm.h) is the part of a rank, and AdmmMaster (admm_master.h) decides on rank 0
// when there are new common weights. Start reading at admm_master.h.
#pragma once

#include "paceline/linear/machines/async_admm.h"
