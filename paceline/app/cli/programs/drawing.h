// Draws a collective from its programs alone.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "paceline/core/collective/program/program.h"
#include "paceline/core/collective/proof/matching.h"

namespace paceline::cli {

// The texts around the picture.
struct Caption {
  std::string_view title;
  std::string_view subtitle;
  std::string_view made_by;  // the command that draws it again, kept in the file
};

// Draws one SVG: a column for each rank, time downwards in rounds, an arrow for each message with
// its chunks. In a round, messages leave and arrive one after the other, as through one port. The
// SVG follows the reader's light or dark scheme, needs no other file, and is the same text each
// time. With many arrows, a label appears only when the mouse rests on its arrow.
// REQUIRES: the programs have met as `meeting` says.
std::string draw(std::span<const collective::Program> programs,
                 const collective::Rendezvous& meeting, const Caption& caption);

}  // namespace paceline::cli
