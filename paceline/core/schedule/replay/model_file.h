// A model as a file, recorded by `paceline profile` or written by hand.
//
//   {"paceline_model": 1, "name": "mlp", "batch": 32,
//    "tensors": [{"name": "0.weight", "bytes": 3211264, "rows": 1024,
//                 "forward": 0.0021, "backward": 0.0043, "update": 0.0004}, ...],
//    "layers": [{"name": "0", "forward": 0.0021, "backward": 0.0043, "output_bytes": 131072,
//                "weight_bytes": 3215360, "saved_bytes": 100352, "parameters": 803840}, ...]}
//
// Tensors and layers are in forward order; times are seconds. The `name` and `rows` of a tensor,
// the `name` of a layer and the whole list `layers` are optional: older files have no layers.
#pragma once

#include <string>
#include <string_view>

#include "paceline/core/base/result.h"
#include "paceline/core/schedule/order/model.h"

namespace paceline::schedule {

// Bytes of a name that are not UTF-8 are replaced.
std::string json_of(const Model& model);

// The failure (misuse) names `origin`, the place (for example tensors[2].bytes), the expected value
// and the remedy.
Result<Model> parse_model(std::string_view text, std::string_view origin);

// Reads the model from a file. THROWS Error (misuse): the failure of parse_model, or the file
// cannot be read.
Model read_model(const std::string& file);

// The model that an option names: a file if the name contains '/' or ends in ".json", else a replay
// model. THROWS Error (misuse).
Model model_named(const std::string& name);

}  // namespace paceline::schedule
