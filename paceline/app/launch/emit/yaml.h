// Writes a value of JSON as YAML that people read: a line for each member and item, and quotes only
// where a reader of YAML 1.1 or 1.2 would take a text for something else.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace paceline::launch {

// Its members keep the order in which they were added.
using Json = nlohmann::ordered_json;

// Ends with a line break. THROWS Error (misuse) when a text is not UTF-8, which YAML cannot hold.
std::string yaml(const Json& value);

}  // namespace paceline::launch
