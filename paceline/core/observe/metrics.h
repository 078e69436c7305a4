// Writes metrics as JSON lines: one object a line, each line written at once, so that a reader
// never sees half a record, and a killed run keeps all records written so far.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "paceline/core/observe/output_file.h"

namespace paceline::observe {

using MetricValue = std::variant<std::int64_t, double, std::string, std::vector<std::int64_t>>;
// Keys are written in this order. A double that is not finite is written as null, because JSON has
// no name for it.
using Metrics = std::vector<std::pair<std::string, MetricValue>>;

std::string json_line(const Metrics& metrics);  // without the newline

class MetricsFile {
 public:
  // Creates the file or truncates it. THROWS Error (io) that names the file.
  explicit MetricsFile(std::string path) : file_("metrics file", std::move(path)) {}

  void write(const Metrics& metrics) {
    file_.write(json_line(metrics) + "\n");
  }  // THROWS Error (io)

 private:
  OutputFile file_;
};

}  // namespace paceline::observe
