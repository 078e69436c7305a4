#include "paceline/core/schedule/model_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <initializer_list>
#include <limits>
#include <sstream>

#include <nlohmann/json.hpp>

#include "paceline/core/base/check.h"
#include "paceline/core/schedule/replay_models.h"

namespace paceline::schedule {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kVersion = 1;
// More is no step of a training: a terabyte in a tensor, a day for it.
constexpr std::size_t kMostTensors = 1'000'000;
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 40;
constexpr double kMostSeconds = 86400;
constexpr std::size_t kLongestName = 200;

constexpr const char* kVersionKey = "paceline_model";

// Reads a model's JSON; the first complaint stays.
class Reader {
 public:
  explicit Reader(std::string_view origin) : origin_(origin) {}

  Result<Model> read(std::string_view text) {
    const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
    Model model{.name = {}, .tensors = {}};
    if (json.is_discarded()) {
      complain("the whole", "a JSON object");
    } else if (has_keys(json, "the whole", {kVersionKey, "name", "batch", "tensors"})) {
      if (json[kVersionKey] != kVersion) complain(kVersionKey, fmt::format("{}", kVersion));
      model.name = name(json, "", 1);
      model.batch = static_cast<int>(whole(json, "", "batch", 1, std::numeric_limits<int>::max()));
      read_tensors(json["tensors"], model);
    }
    if (!complaint_.empty()) return Failure{Fault::misuse, complaint_, {}};
    return model;
  }

 private:
  void complain(std::string_view where, std::string_view wanted) {
    if (!complaint_.empty()) return;
    complaint_ = fmt::format(
        "model {}: {} must be {}; record it anew with: paceline profile --output FILE -- PROGRAM",
        origin_, where, wanted);
  }
  static std::string place(std::string_view where, std::string_view key) {
    return where.empty() ? std::string(key) : fmt::format("{} of {}", key, where);
  }

  // All of these and, beside them, at most those that `may` be.
  bool has_keys(const Json& json, std::string_view where,
                std::initializer_list<std::string_view> must,
                std::initializer_list<std::string_view> may = {}) {
    if (!json.is_object()) {
      complain(where, "a JSON object");
      return false;
    }
    for (const std::string_view key : must) {
      if (!json.contains(key)) complain(fmt::format("{} of {}", key, where), "given");
    }
    for (const auto& [key, value] : json.items()) {
      if (std::ranges::find(must, key) == must.end() && std::ranges::find(may, key) == may.end())
        complain(fmt::format("key '{}' of {}", key, where),
                 fmt::format("one of {}{}{}", fmt::join(must, ", "), may.size() > 0 ? ", " : "",
                             fmt::join(may, ", ")));
    }
    return complaint_.empty();
  }

  std::string name(const Json& json, std::string_view where, std::size_t least) {
    const Json& found = json["name"];
    const std::string read = found.is_string() ? found.get<std::string>() : "";
    if (!found.is_string() || read.size() < least || read.size() > kLongestName)
      complain(place(where, "name"), fmt::format("a text of {} to {} bytes", least, kLongestName));
    return read;
  }

  std::uint64_t whole(const Json& json, std::string_view where, const char* key,
                      std::uint64_t least, std::uint64_t most) {
    const Json& found = json[key];
    const std::uint64_t read = found.is_number_unsigned() ? found.get<std::uint64_t>() : 0;
    if (!found.is_number_unsigned() || read < least || read > most)
      complain(place(where, key), fmt::format("a whole number from {} to {}", least, most));
    return read;
  }

  double seconds(const Json& json, std::string_view where, const char* key) {
    const Json& found = json[key];
    const double read = found.is_number() ? found.get<double>() : -1;
    if (!(read >= 0 && read <= kMostSeconds))
      complain(place(where, key), fmt::format("a number of seconds from 0 to {}", kMostSeconds));
    return read;
  }

  void read_tensors(const Json& json, Model& model) {
    if (!json.is_array() || json.empty() || json.size() > kMostTensors)
      return complain("tensors", fmt::format("a list of 1 to {} tensors", kMostTensors));
    for (std::size_t i = 0; i < json.size() && complaint_.empty(); ++i)
      model.tensors.push_back(tensor(json[i], fmt::format("tensor {}", i + 1)));
    if (complaint_.empty() && !(model.compute() > 0))
      complain("the computation of all tensors together", "more than 0 seconds");
  }

  Tensor tensor(const Json& json, const std::string& where) {
    Tensor read;
    if (!has_keys(json, where, {"bytes", "forward", "backward", "update"}, {"name", "rows"}))
      return read;
    read.bytes = whole(json, where, "bytes", 1, kMostBytes);
    read.forward = seconds(json, where, "forward");
    read.backward = seconds(json, where, "backward");
    read.update = seconds(json, where, "update");
    if (json.contains("rows")) read.rows = whole(json, where, "rows", 0, read.bytes);
    if (json.contains("name")) read.name = name(json, where, 0);
    return read;
  }

  std::string_view origin_;
  std::string complaint_;
};

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
  const Json json = {{kVersionKey, kVersion},
                     {"name", model.name},
                     {"batch", model.batch},
                     {"tensors", std::move(tensors)}};
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<Model> parse_model(std::string_view text, std::string_view origin) {
  return Reader(origin).read(text);
}

Model read_model(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();  // fails without a byte, and where the file is a folder
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
