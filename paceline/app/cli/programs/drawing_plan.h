// Places everything in the picture of a collective: values, before any SVG is written.
//
// Internal to drawing.h and its tests.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "paceline/core/collective/program/program.h"
#include "paceline/core/collective/proof/matching.h"

namespace paceline::cli {

// The data that one rank sends to another in one round: one arrow.
struct Arrow {
  int from = -1;
  int to = -1;
  int time = 0;  // see timeline.h
  int lane = 0;  // within its time: no rank sends twice, and none receives twice, in one lane
  std::vector<int> chunks = {};  // in the order of the steps
  bool stores = false;           // some step is a store
  bool reduces = false;          // some step meets a recv_reduce
  bool completes = false;        // some step meets one that completes
  bool operator==(const Arrow&) const = default;
};

// The local work of one rank in one round.
struct Mark {
  int rank = -1;
  int time = 0;                  // at the end of it
  std::vector<int> chunks = {};  // target chunks, in the order of the steps
  bool reduces = false;          // else it only copies
  bool completes = false;
  bool operator==(const Mark&) const = default;
};

struct DrawingPlan {
  std::vector<Arrow> arrows;  // sorted by time, lane, sender
  std::vector<Mark> marks;    // sorted by rank, then by time
  std::vector<int> lanes;     // the number of lanes, by time
};

// REQUIRES: the programs have met as `meeting` says.
DrawingPlan plan_drawing(std::span<const collective::Program> programs,
                         const collective::Rendezvous& meeting);

std::string chunk_list(std::vector<int> chunks);  // "0-3,7"

}  // namespace paceline::cli
