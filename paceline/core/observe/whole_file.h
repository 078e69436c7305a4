// A file that is written as a whole or not at all: a reader never sees half of it, and a run that
// fails leaves the former one.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "paceline/core/observe/output_file.h"

namespace paceline::observe {

class WholeFile {
 public:
  // Creates `<path>.part`, so that an unwritable path is reported before the work is done. A path
  // that is no ordinary file (/dev/stdout, a pipe) is written to directly. `what` is its name in
  // errors ("JSON file"). THROWS Error (io) that names the file.
  WholeFile(std::string what, std::string path);
  ~WholeFile();  // without commit() the former file stays as it was
  WholeFile(const WholeFile&) = delete;
  WholeFile& operator=(const WholeFile&) = delete;

  // Replaces the file's content by these bytes. THROWS Error (io).
  void commit(std::string_view bytes);

 private:
  std::string what_, path_, part_;  // part_ is empty if the file is written to directly
  std::optional<OutputFile> file_;
};

}  // namespace paceline::observe
