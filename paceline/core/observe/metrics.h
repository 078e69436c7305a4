// Metrics as JSON lines: one object a line, each line written at once, so that a reader never sees
// half a record and a killed run keeps all that it told.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "paceline/core/observe/output_file.h"

namespace paceline::observe {

using MetricValue = std::variant<std::int64_t, double, std::string, std::vector<std::int64_t>>;
// Keys in the order in which they are to stand. A double that is not finite is written as null:
// JSON has no name for it.
using Metrics = std::vector<std::pair<std::string, MetricValue>>;

std::string json_line(const Metrics& metrics);  // without the newline

class MetricsFile {
 public:
  // Empties the file or makes it. THROWS Error (io) that names the file.
  explicit MetricsFile(std::string path) : file_("metrics file", std::move(path)) {}

  void write(const Metrics& metrics) {
    file_.write(json_line(metrics) + "\n");
  }  // THROWS Error (io)

 private:
  OutputFile file_;
};

}  // namespace paceline::observe
