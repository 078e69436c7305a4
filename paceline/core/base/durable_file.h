// A file that is replaced as a whole or stays as it was, also when the machine stops: a reader
// never sees half of it.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "paceline/core/base/disk.h"

namespace paceline {

class DurableFile {
 public:
  // Begins a file beside `path`, under a name that nobody can guess, so that an unwritable path is
  // reported before the work is done. A path that is no ordinary file (/dev/stdout, a pipe) is
  // written to directly. `what` is its name in errors ("JSON file"). THROWS Error (io) that names
  // the file.
  DurableFile(std::string what, std::string path);
  // The same on another disk, which must outlive this; the path is that of an ordinary file.
  DurableFile(std::string what, std::string path, Disk& disk);
  ~DurableFile();  // without commit() the former file stays as it was
  DurableFile(const DurableFile&) = delete;
  DurableFile& operator=(const DurableFile&) = delete;

  // Replaces the file's content by these bytes, durably. Once. THROWS Error (io).
  void commit(std::string_view bytes);

 private:
  void begin();
  void open_directly();

  SystemDisk own_disk_;
  Disk& disk_;
  std::string what_, path_, part_;    // part_ is empty if the file is written to directly
  std::unique_ptr<Disk::File> file_;  // beside the path
  int direct_ = -1;                   // a descriptor
};

// For a run that writes a file at its end and must not do its work in vain: whether the file can be
// made. Leaves everything as it was. THROWS Error (misuse) that names the file and the remedy.
void check_may_be_written(const std::string& what, const std::string& path);

}  // namespace paceline
