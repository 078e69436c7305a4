// Whether stores are safe over shared memory, where a rank writes straight into a peer's output.
//
// There a store may land at any moment from the beginning of the storing rank's round on, whatever
// the peer does. So the peer must not touch the slot before its receive, with one exception: it may
// have sent the slot to the storing rank, which had it before. A receive into scratch is a view of
// the peer's memory, so then the storing rank must also be done with that view.
#pragma once

#include <span>

#include "paceline/core/base/result.h"
#include "paceline/core/collective/program/program.h"
#include "paceline/core/collective/proof/matching.h"

namespace paceline::collective {

// REQUIRES: the programs have passed check_form and met as `meeting` says, each store with a recv.
Result<Done> check_stores(std::span<const Program> programs, const Rendezvous& meeting,
                          bool in_place);

}  // namespace paceline::collective
