// Writes scalars for TensorBoard: `tensorboard --logdir DIR` draws them.
//
// The file is a sequence of TFRecords (length, masked CRC-32C, Event message, masked CRC-32C), as
// TensorFlow's core/lib/io/record_writer.cc and core/util/event.proto define them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "paceline/core/observe/output_file.h"

namespace paceline::observe {

class TensorBoardFile {
 public:
  // Creates the folder and in it a new events file for this run. THROWS Error (io).
  explicit TensorBoardFile(const std::string& folder);

  const std::string& path() const { return path_; }
  // The points appear at `step`, with the time of the call. Values that are not finite are drawn as
  // such. THROWS Error (io).
  void write(std::int64_t step, const std::vector<std::pair<std::string, double>>& scalars);

 private:
  void record(std::string_view event);

  std::string path_;
  OutputFile file_;
};

}  // namespace paceline::observe
