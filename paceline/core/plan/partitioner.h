// The partitioner of PipeDream: cuts the layers of a model into stages, and replicates stages, so
// that the slowest stage takes the least time for a mini-batch while others compute other ones.
// Narayanan et al., PipeDream: Generalized Pipeline Parallelism for DNN Training, SOSP 2019
// (section 3.1; the recurrence is carried out exactly).
//
//   A0(i..j)   = the seconds of the layers i to j
//   Tk(i..j,m) = max(A(k-1)(i..j, all units inside), 2 (m-1) weights(i..j) / Bk) / m
//   Ak(i..j,m) = min(Tk(i..j,m), min over s, r of
//                    max(Ak(i..s, m-r), 2 output(s) / Bk, Tk(s+1..j, r)))
#pragma once

#include <cstdint>
#include <vector>

#include "paceline/core/base/result.h"
#include "paceline/core/plan/layer_cost.h"
#include "paceline/core/plan/stage_partition.h"

namespace paceline::plan {

// Units of one kind that the same links connect. A unit of the innermost level is a rank; one of
// the next level is all of the level inside.
struct Level {
  int units = 1;
  double bytes_per_second = 125e6;
};

// One to three levels, from the innermost to the outermost: ranks of a host, hosts of a switch.
using Machine = std::vector<Level>;

enum class PartitionModel : std::uint8_t {
  paper,  // sums of gradients and transfers run beside the computation: the recurrence above
  code,   // as PipeDream's published program: T = (A + 4 (m-1) weights / (B m)) / m, no transfers
};

struct PartitionOptions {
  PartitionModel model = PartitionModel::paper;
  bool is_straight = false;  // one replica a stage, and so as many stages as there are ranks
};

struct PartitionChoice {
  // Replicas of a stage inside a unit that is itself replicated are counted together.
  StagePartition partition;
  double seconds = 0;  // of the slowest stage or transfer, for a mini-batch
};

// The partition with the least seconds over all of the machine's ranks. Of several, the one with
// the fewest stages, and of these the one whose cuts carry the fewest bytes. The work grows with
// layers^2 units^2, and with several levels with layers^3 units^2. A failure (misuse) names the
// input that is out of range, or says that there are more straight stages than layers.
Result<PartitionChoice> best_partition(LayerCosts layers, const Machine& machine,
                                       const PartitionOptions& options = {});

// The straight cut into that many stages whose slowest stage or transfer takes the least time.
Result<PartitionChoice> balanced_cut(LayerCosts layers, int stages, double bytes_per_second);

}  // namespace paceline::plan
