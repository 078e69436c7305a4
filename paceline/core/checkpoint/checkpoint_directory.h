// The directory of a run's checkpoints: one directory for each saved step, which is there as a
// whole or not at all, whenever the machine stops.
//
//     runs/a/step-00000400/manifest.json     a committed step
//     runs/a/.saving-00000600/               a save under way, or one that a crash has ended
//     runs/a/.removing-00000200/             an old step on its way out
//     runs/a/aside-1/step-00000900/          a step of a former run, which this one began without
//
// Order of a commit: each file is durable, the manifest among them, then their names, before the
// step gets its name; that is durable before older steps lose theirs, and these have durably lost
// them before their files are removed (Pillai et al., OSDI 2014, on what file systems reorder).
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/core/base/disk.h"
#include "paceline/core/checkpoint/manifest.h"

namespace paceline::checkpoint {

inline constexpr std::string_view kManifestName = "manifest.json";
inline constexpr std::string_view kManifestSumName = "manifest.sha256";

std::string name_of_step(std::uint64_t step);  // "step-00000400"
std::optional<std::uint64_t> step_of_name(std::string_view name);

// The steps that stay when a newer one is committed.
struct Keep {
  std::uint64_t last = 2;   // the newest ones that are verified; at least 1
  std::uint64_t every = 0;  // and all multiples of this; 0: none
};

class CheckpointDirectory {
 public:
  // `disk` must outlive this.
  CheckpointDirectory(Disk& disk, std::string path) : disk_(disk), path_(std::move(path)) {}

  const std::string& path() const { return path_; }
  std::string path_of(std::uint64_t step) const { return path_ + "/" + name_of_step(step); }
  // The committed steps by their names alone, in ascending order.
  Result<std::vector<std::uint64_t>> steps() const;
  // The newest name of a step that is a link or a file: nothing reads it as a checkpoint.
  Result<std::optional<std::uint64_t>> newest_that_is_no_directory() const;

  // --- by one process at a time ---

  // Removes what crashed saves and removals have left, and makes an empty directory for the files
  // of `step`. Returns its path.
  Result<std::string> begin(std::uint64_t step);
  // Makes the step that was begun the committed one, instead of an earlier commit of the same step.
  // REQUIRES: the manifest's files lie in the directory that begin() returned, each synced. After a
  // failure the step is as before; call abandon().
  Result<> commit(const Manifest& manifest);
  Result<> abandon(std::uint64_t step);
  // Removes committed steps but those to keep. `verified`: the steps that are known to be whole,
  // because this run has read all of them, or has written them and knows their checksums. Only
  // these take the place of older ones, and no step goes that is newer than the oldest verified one
  // to keep.
  Result<> prune(const Keep& keep, const std::set<std::uint64_t>& verified);
  // Moves all committed steps into a new folder of this one, `aside-1` and so on, and returns its
  // path; empty: there are none.
  Result<std::string> set_aside();

 private:
  std::string saving(std::uint64_t step) const;
  Result<> remove_leftovers();
  Result<std::string> free_aside() const;
  Result<> write_durably(const std::string& path, std::string_view text);

  Disk& disk_;
  const std::string path_;
};

}  // namespace paceline::checkpoint
