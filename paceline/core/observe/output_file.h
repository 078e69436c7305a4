// A file that is written piece by piece, each piece at once: a killed run keeps every piece written
// so far.
#pragma once

#include <string>
#include <string_view>

namespace paceline::observe {

class OutputFile {
 public:
  // Creates the file or truncates it. `what` is its name in errors ("metrics file"). THROWS Error
  // (io) that names the file.
  OutputFile(std::string what, std::string path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(std::string_view bytes);  // THROWS Error (io), for example when the disk is full

 private:
  std::string what_, path_;
  int descriptor_ = -1;
};

}  // namespace paceline::observe
