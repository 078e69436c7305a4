// Metrics as JSON lines: one object a line, each line written at once, so that a reader never sees
// half a record and a killed run keeps all that it told.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace paceline::observe {

using MetricValue = std::variant<std::int64_t, double, std::string, std::vector<std::int64_t>>;
// Keys in the order in which they are to stand. A double that is not finite is written as null:
// JSON has no name for it.
using Metrics = std::vector<std::pair<std::string, MetricValue>>;

std::string json_line(const Metrics& metrics);  // without the newline

class MetricsFile {
 public:
  // Empties the file or makes it. THROWS Error (io) that names the file.
  explicit MetricsFile(std::string path);
  ~MetricsFile();
  MetricsFile(const MetricsFile&) = delete;
  MetricsFile& operator=(const MetricsFile&) = delete;

  void write(const Metrics& metrics);  // THROWS Error (io), for example when the disk is full

 private:
  std::string path_;
  int descriptor_ = -1;
};

}  // namespace paceline::observe
