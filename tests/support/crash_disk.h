// A disk in memory that can crash: of the operations that no sync has made durable, any may be lost
// while later ones are not (Pillai et al., OSDI 2014).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "paceline/core/base/disk.h"

namespace paceline::test {

class CrashDisk final : public Disk {
 public:
  CrashDisk();

  // Operations so far that change the disk, syncs among them.
  std::size_t operations() const { return log_.size(); }
  // The disk as it may be found when the machine stops after `count` operations. `survives` is
  // asked for each operation that was not durable then, in order.
  CrashDisk crashed(std::size_t count, const std::function<bool()>& survives) const;

  // The sync with this number (from 0 on, of files and directories) tells success and does nothing.
  static constexpr std::size_t kNone = ~std::size_t{0};
  void lose_sync(std::size_t number) { lost_sync_ = number; }
  std::size_t syncs() const { return syncs_; }  // so far

  // `count` more operations succeed. Each one after them fails with `failure`.
  void fail_after(std::size_t count, Failure failure);
  void work_again() { failure_ = {}; }

  // Every path with its content ("" of directories), as a reader of this disk would see it.
  std::map<std::string, std::string> tree() const;

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

 private:
  class Writing;
  struct Node {
    bool is_directory = false;
    std::string content;
    std::map<std::string, std::size_t> entries;
  };
  // A place is an entry of a directory.
  struct Place {
    std::size_t directory = 0;
    std::string name;
  };
  struct Operation {
    enum class Kind { make, append, rename, exchange, remove, sync } kind;
    std::size_t node = 0;  // that is made, appended to or synced
    Place at = {}, to = {};
    std::uint64_t offset = 0;
    std::string bytes = {};
    bool is_directory = false;
  };

  Result<> perform(Operation operation);
  void apply(const Operation& operation);
  bool is_durable(std::size_t operation, std::size_t count) const;
  Result<Place> place_of(const std::string& path) const;
  Result<std::size_t> find(const std::string& path) const;
  const std::size_t* entry(const Place& place) const;

  std::vector<Node> nodes_;  // the first one is the root
  std::vector<Operation> log_;
  std::optional<Failure> failure_;
  std::size_t until_failure_ = 0;
  std::size_t syncs_ = 0, lost_sync_ = kNone;
};

}  // namespace paceline::test
