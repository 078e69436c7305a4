// A model as a file: what `paceline profile` has recorded, or somebody has written by hand.
//
//   {"paceline_model": 1, "name": "mlp", "batch": 32,
//    "tensors": [{"name": "0.weight", "bytes": 3211264, "rows": 1024,
//                 "forward": 0.0021, "backward": 0.0043, "update": 0.0004}, ...]}
//
// Tensors stand in forward order; times are seconds. `name` and `rows` of a tensor may be left out:
// not known.
#pragma once

#include <string>
#include <string_view>

#include "paceline/core/base/result.h"
#include "paceline/core/schedule/model.h"

namespace paceline::schedule {

// Text that is not UTF-8 in a name is replaced.
std::string json_of(const Model& model);

// The failure (misuse) names `origin`, the place (as in tensors[2].bytes), what must stand there
// and the remedy.
Result<Model> parse_model(std::string_view text, std::string_view origin);

// The file's. THROWS Error (misuse) as parse_model fails, or when it cannot be read.
Model read_model(const std::string& file);

// What an option names: a file, if it has a '/' or ends in ".json", else a replay model. THROWS
// Error (misuse).
Model model_named(const std::string& name);

}  // namespace paceline::schedule
