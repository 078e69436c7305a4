// StagePartition: which layers stand on which stage of a pipeline, and how often each stage is
// there, as a value.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "paceline/core/base/result.h"

namespace paceline::plan {

// The layers first .. last, counted from 0, on each of `replicas` ranks.
struct Stage {
  int first = 0, last = 0, replicas = 1;
  int layers() const { return last - first + 1; }
  bool operator==(const Stage&) const = default;
};

// The stages tile the layers of the model, in order.
struct StagePartition {
  std::vector<Stage> stages;

  // Reads "0-3x2,4x1": the layers 0 to 3 on two ranks, layer 4 on one. "x1" may be left out. A
  // failure (misuse) quotes the text, and says what is wrong and what is right: a word that is no
  // stage, more stages than layers, layers in two stages or in none, layers that the model lacks.
  static Result<StagePartition> parse(std::string_view text, int layers);

  int size() const { return static_cast<int>(stages.size()); }
  int ranks() const;         // the replicas of all stages together
  bool is_straight() const;  // no stage has replicas
  std::string text() const;  // without "x1" if it is straight
  bool operator==(const StagePartition&) const = default;
};

// The cut in which the numbers of layers differ by one at most, the longer stages first. The
// failure (misuse) says that there are more stages than layers.
Result<StagePartition> even_cut(int layers, int stages);

}  // namespace paceline::plan
