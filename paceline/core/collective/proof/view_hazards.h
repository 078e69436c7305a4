// Whether views end: over shared memory a receive into scratch may leave the data in the sender's
// buffer until the last reduction that reads it (compiled_program.h), and the sender must not write
// there before.
//
// So ranks may wait for each other in a way that messages alone do not show: two ranks that read
// each other's buffers and would write their sums over them, in place, wait for ever.
#pragma once

#include <span>

#include "paceline/core/base/result.h"
#include "paceline/core/collective/program/program.h"
#include "paceline/core/collective/proof/matching.h"

namespace paceline::collective {

// REQUIRES: the programs have passed check_form and met as `meeting` says.
Result<Done> check_views(std::span<const Program> programs, const Rendezvous& meeting,
                         bool in_place);

}  // namespace paceline::collective
