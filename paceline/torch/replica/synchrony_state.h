// The state of a Synchrony that goes from step to step beside the model: in a checkpoint it makes
// the next step that of a run which was never interrupted.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "paceline/core/base/json_reader.h"

namespace paceline::parallel {

struct SynchronyState {
  JsonReader::Json values = JsonReader::Json::object();  // the same on all ranks
  std::vector<std::byte> own;                            // of this rank; empty: it keeps nothing
};

// One that was read again, perhaps by another number of ranks.
struct SavedSynchrony {
  JsonReader::Json values = JsonReader::Json::object();
  int ranks = 1;  // that saved it
  std::function<std::vector<std::byte>(int rank)> own = {};
};

}  // namespace paceline::parallel
