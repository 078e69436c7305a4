#include "paceline/core/schedule/replay/model_file.h"

#include <fmt/format.h>

#include <cstdint>
#include <fstream>
#include <limits>
#include <sstream>

#include "paceline/core/base/check.h"
#include "paceline/core/base/json_reader.h"
#include "paceline/core/schedule/replay/replay_models.h"

namespace paceline::schedule {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kVersion = 1;
// Larger values are errors in the file: a terabyte in a tensor, a day for its computation.
constexpr std::size_t kMostTensors = 1'000'000, kMostLayers = kMostTensors;
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 40;
constexpr double kMostSeconds = 86400;
constexpr std::size_t kLongestName = 200;

constexpr const char* kVersionKey = "paceline_model";

Tensor read_tensor(JsonReader& reader, const Json& json, const std::string& where) {
  Tensor tensor;
  if (!reader.has_keys(json, where, {"bytes", "forward", "backward", "update"}, {"name", "rows"}))
    return tensor;
  tensor.bytes = reader.whole(json, where, "bytes", 1, kMostBytes);
  tensor.forward = reader.number(json, where, "forward", kMostSeconds);
  tensor.backward = reader.number(json, where, "backward", kMostSeconds);
  tensor.update = reader.number(json, where, "update", kMostSeconds);
  if (json.contains("rows")) tensor.rows = reader.whole(json, where, "rows", 0, tensor.bytes);
  if (json.contains("name")) tensor.name = reader.text(json, where, "name", 0, kLongestName);
  return tensor;
}

void read_tensors(JsonReader& reader, const Json& json, Model& model) {
  if (!json.is_array() || json.empty() || json.size() > kMostTensors)
    return reader.complain("tensors", fmt::format("a list of 1 to {} tensors", kMostTensors));
  for (std::size_t i = 0; i < json.size() && !reader.failure(); ++i)
    model.tensors.push_back(read_tensor(reader, json[i], fmt::format("tensors[{}]", i)));
  if (!reader.failure() && !(model.compute() > 0))
    reader.complain("the computation of all tensors together", "more than 0 seconds");
}

Layer read_layer(JsonReader& reader, const Json& json, const std::string& where) {
  Layer layer;
  if (!reader.has_keys(
          json, where,
          {"forward", "backward", "output_bytes", "weight_bytes", "saved_bytes", "parameters"},
          {"name", "forward_start", "backward_start"}))
    return layer;
  layer.forward = reader.number(json, where, "forward", kMostSeconds);
  layer.backward = reader.number(json, where, "backward", kMostSeconds);
  layer.output_bytes = reader.whole(json, where, "output_bytes", 0, kMostBytes);
  layer.weight_bytes = reader.whole(json, where, "weight_bytes", 0, kMostBytes);
  layer.saved_bytes = reader.whole(json, where, "saved_bytes", 0, kMostBytes);
  layer.parameters = reader.whole(json, where, "parameters", 0, layer.weight_bytes);
  if (json.contains("name")) layer.name = reader.text(json, where, "name", 0, kLongestName);
  if (json.contains("forward_start"))
    layer.forward_start = reader.number(json, where, "forward_start", layer.forward);
  if (json.contains("backward_start"))
    layer.backward_start = reader.number(json, where, "backward_start", layer.backward);
  return layer;
}

void read_layers(JsonReader& reader, const Json& json, Model& model) {
  if (!json.is_array() || json.empty() || json.size() > kMostLayers)
    return reader.complain("layers", fmt::format("a list of 1 to {} layers", kMostLayers));
  double seconds = 0;
  for (std::size_t i = 0; i < json.size() && !reader.failure(); ++i) {
    model.layers.push_back(read_layer(reader, json[i], fmt::format("layers[{}]", i)));
    seconds += model.layers.back().forward + model.layers.back().backward;
  }
  if (!reader.failure() && !(seconds > 0))
    reader.complain("the computation of all layers together", "more than 0 seconds");
}

Json json_of(const std::vector<Layer>& layers) {
  Json list = Json::array();
  for (const Layer& layer : layers) {
    Json& one = list.emplace_back(Json::object());
    if (!layer.name.empty()) one["name"] = layer.name;
    one["forward"] = layer.forward;
    one["backward"] = layer.backward;
    one["output_bytes"] = layer.output_bytes;
    one["weight_bytes"] = layer.weight_bytes;
    one["saved_bytes"] = layer.saved_bytes;
    one["parameters"] = layer.parameters;
    if (layer.forward_start > 0) one["forward_start"] = layer.forward_start;
    if (layer.backward_start > 0) one["backward_start"] = layer.backward_start;
  }
  return list;
}

}  // namespace

std::string json_of(const Model& model) {
  Json tensors = Json::array();
  for (const Tensor& tensor : model.tensors) {
    Json& one = tensors.emplace_back(Json::object());
    if (!tensor.name.empty()) one["name"] = tensor.name;
    one["bytes"] = tensor.bytes;
    if (tensor.rows > 0) one["rows"] = tensor.rows;
    one["forward"] = tensor.forward;
    one["backward"] = tensor.backward;
    one["update"] = tensor.update;
  }
  Json json = {{kVersionKey, kVersion},
               {"name", model.name},
               {"batch", model.batch},
               {"tensors", std::move(tensors)}};
  if (!model.layers.empty()) json["layers"] = json_of(model.layers);
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<Model> parse_model(std::string_view text, std::string_view origin) {
  JsonReader reader(fmt::format("model {}", origin),
                    "record it again with: paceline profile --output FILE -- PROGRAM");
  const Json json = reader.parse(text);
  Model model{.name = {}, .tensors = {}};
  if (reader.has_keys(json, "", {kVersionKey, "name", "batch", "tensors"}, {"layers"})) {
    if (json[kVersionKey] != kVersion) reader.complain(kVersionKey, fmt::format("{}", kVersion));
    model.name = reader.text(json, "", "name", 1, kLongestName);
    model.batch =
        static_cast<int>(reader.whole(json, "", "batch", 1, std::numeric_limits<int>::max()));
    read_tensors(reader, json["tensors"], model);
    if (!reader.failure() && json.contains("layers")) read_layers(reader, json["layers"], model);
  }
  if (reader.failure()) return *reader.failure();
  return model;
}

Model read_model(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();  // fails if the file is empty or a folder
  PACELINE_CHECK(in.is_open() && text.good(),
                 "model {} cannot be read; record one with: paceline profile --output FILE -- "
                 "PROGRAM",
                 file);
  return parse_model(text.str(), file).value();
}

Model model_named(const std::string& name) {
  const bool is_file = name.find('/') != std::string::npos || name.ends_with(".json");
  return is_file ? read_model(name) : replay_model(name);
}

}  // namespace paceline::schedule
