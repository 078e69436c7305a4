#include "paceline/core/observe/metrics.h"

#include <cmath>

#include <nlohmann/json.hpp>

namespace paceline::observe {
namespace {

struct ToJson {
  using Json = nlohmann::ordered_json;
  Json operator()(std::int64_t number) const { return number; }
  Json operator()(double number) const {
    return std::isfinite(number) ? Json(number) : Json(nullptr);
  }
  Json operator()(const std::string& text) const { return text; }
  Json operator()(const std::vector<std::int64_t>& numbers) const { return numbers; }
};

}  // namespace

std::string json_line(const Metrics& metrics) {
  auto object = nlohmann::ordered_json::object();
  for (const auto& [key, value] : metrics) object[key] = std::visit(ToJson{}, value);
  return object.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace paceline::observe
