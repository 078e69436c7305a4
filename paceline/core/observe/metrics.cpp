#include "paceline/core/observe/metrics.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>

#include <nlohmann/json.hpp>

#include "paceline/core/base/result.h"

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

MetricsFile::MetricsFile(std::string path) : path_(std::move(path)) {
  descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644);
  if (descriptor_ < 0) {
    Failure failure = io_failure(fmt::format("cannot write the metrics file {}", path_), errno);
    failure.what += ". Name a file in a folder that exists and can be written";
    throw Error(std::move(failure));
  }
}

MetricsFile::~MetricsFile() {
  ::close(descriptor_);
}

void MetricsFile::write(const Metrics& metrics) {
  const std::string line = json_line(metrics) + "\n";
  std::string_view rest = line;
  while (!rest.empty()) {
    const ssize_t written = ::write(descriptor_, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0)
      throw Error(io_failure(fmt::format("writing to the metrics file {}", path_), errno));
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
}

}  // namespace paceline::observe
