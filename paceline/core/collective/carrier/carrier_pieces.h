// How calls whose buffers are staged are cut into pieces (staging/staged_pieces.h). Pieces are this
// rank's own affair: others may cut the same call otherwise, or not at all, and bits do not depend
// on them.
#pragma once

#include <cstddef>
#include <vector>

#include "paceline/core/collective/call/request.h"
#include "paceline/core/collective/staging/staged_pieces.h"

namespace paceline::collective {

// The elements of this rank's input, or output, that a segment of the request's program takes.
// REQUIRES: the request has a plan.
std::vector<ElementRange> input_of_segment(const Request& request, int rank, int segment);
std::vector<ElementRange> output_of_segment(const Request& request, int rank, int segment);

// Pieces of about `piece_bytes` of the call, in the order in which its carrier takes them; none:
// the call stays whole. `owners`: the ranks that share long sums (Members::owners).
std::vector<StagedPiece> pieces_of(const Request& request, int rank, int owners,
                                   std::size_t piece_bytes);

}  // namespace paceline::collective
