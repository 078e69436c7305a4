// A file that is there as a whole or not at all: a reader never sees half of it, and a run that
// fails leaves the former one.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "paceline/core/observe/output_file.h"

namespace paceline::observe {

class WholeFile {
 public:
  // Makes `<path>.part` beside it, so that a path that cannot be written is told before the work is
  // done. What is no ordinary file (/dev/stdout, a pipe) is written to directly. `what` is its name
  // in errors ("JSON file"). THROWS Error (io) that names the file.
  WholeFile(std::string what, std::string path);
  ~WholeFile();  // without commit(): nothing has happened
  WholeFile(const WholeFile&) = delete;
  WholeFile& operator=(const WholeFile&) = delete;

  // The file holds these bytes. THROWS Error (io).
  void commit(std::string_view bytes);

 private:
  std::string what_, path_, part_;  // part_ is empty when it is written to directly
  std::optional<OutputFile> file_;
};

}  // namespace paceline::observe
