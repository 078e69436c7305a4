// The file operations of what must survive a crash: each step between "not there" and "durable" is
// a call of its own, so that tests can end a run between any two of them.
//
// A file's bytes are durable after File::sync, its name after sync_directory on the directory that
// holds it, and both are needed (fsync(2)). Paths are as for open(2). Failures (io) name the
// operation, the path and the system's reason. THREAD: any; one object at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "paceline/core/base/bytes.h"
#include "paceline/core/base/result.h"

namespace paceline {

class Disk {
 public:
  // A new file that is being written. Its destructor closes it; bytes that were not synced may be
  // lost.
  class File {
   public:
    virtual ~File() = default;
    // Reserves room for a file of this length, so that a full disk is told before bytes are
    // written. Does nothing on file systems that cannot reserve.
    virtual Result<> reserve(std::uint64_t bytes) = 0;
    virtual Result<> append(Bytes bytes) = 0;
    // After a failure the file is lost for good: a later sync may succeed although bytes are
    // missing (Rebello et al., USENIX ATC 2020). Remove it and write another one.
    virtual Result<> sync() = 0;
  };

  // A file that is being read.
  class Source {
   public:
    virtual ~Source() = default;
    virtual std::uint64_t size() const = 0;
    // Fills `into`, or fails: a file that is too short is a failure.
    virtual Result<> read(std::uint64_t offset, MutableBytes into) = 0;
  };

  struct Entry {
    std::string name;
    enum class Kind : std::uint8_t { file, directory, other } kind = Kind::file;
  };

  virtual ~Disk() = default;
  // Nothing of that name may exist, not even a link.
  virtual Result<std::unique_ptr<File>> create(const std::string& path) = 0;
  // Refuses links and everything else that is no ordinary file.
  virtual Result<std::unique_ptr<Source>> open(const std::string& path) = 0;
  // Sorted by name; empty if there is no such directory. Fails if an entry cannot be looked at.
  virtual Result<std::vector<Entry>> list(const std::string& directory) = 0;
  virtual Result<> make_directory(const std::string& path) = 0;  // one that exists is no failure
  virtual Result<> rename(const std::string& from, const std::string& to) = 0;  // replaces nothing
  // Replaces a file: the name `to` means the old one or the new one, whenever the machine stops.
  virtual Result<> replace(const std::string& from, const std::string& to) = 0;
  virtual Result<> exchange(const std::string& one, const std::string& other) = 0;  // both exist
  virtual Result<> remove(const std::string& path) = 0;  // a file, or an empty directory
  virtual Result<> sync_directory(const std::string& path) = 0;
  virtual Result<std::uint64_t> free_bytes(const std::string& directory) = 0;
};

// The disk of this machine.
class SystemDisk final : public Disk {
 public:
  Result<std::unique_ptr<File>> create(const std::string& path) override;
  Result<std::unique_ptr<Source>> open(const std::string& path) override;
  Result<std::vector<Entry>> list(const std::string& directory) override;
  Result<> make_directory(const std::string& path) override;
  Result<> rename(const std::string& from, const std::string& to) override;
  Result<> replace(const std::string& from, const std::string& to) override;
  Result<> exchange(const std::string& one, const std::string& other) override;
  Result<> remove(const std::string& path) override;
  Result<> sync_directory(const std::string& path) override;
  Result<std::uint64_t> free_bytes(const std::string& directory) override;
};

// Removes a directory and all that is in it. Links are removed, not followed.
Result<> remove_tree(Disk& disk, const std::string& directory);

}  // namespace paceline
