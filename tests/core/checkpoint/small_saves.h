// Whole saves of small checkpoints (small_checkpoints.h) by the two ranks of a job.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>

#include "paceline/core/checkpoint/checkpoint.h"
#include "paceline/core/collective/collective.h"
#include "paceline/core/job/job.h"
#include "tests/core/checkpoint/small_checkpoints.h"

namespace paceline::checkpoint::testing {

// Saves `step` into the directory of the run, and removes older ones. THROWS Error.
inline void save_as(Job& job, const std::string& run, std::uint64_t step) {
  SystemDisk disk;
  CheckpointDirectory directory(disk, run);
  std::string place;
  if (job.rank() == 0) place = directory.begin(step).value();
  place = broadcast_bytes(job.world(), place);
  SmallCheckpoint small(step, /*elements=*/3000);
  const auto& own = small.files.at(static_cast<std::size_t>(job.rank()));
  small.manifest.files = {write_tensor_file(disk, place, own.name, own.tensors, {}).value()};
  // All ranks have the same manifest but for their files.
  const auto all = gather_bytes(job.world(), small.manifest.files[0].name + " " +
                                                 std::to_string(small.manifest.files[0].length));
  const auto sums = gather_bytes(
      job.world(), {reinterpret_cast<const char*>(small.manifest.files[0].checksums.data()),
                    small.manifest.files[0].checksums.size() * sizeof(std::uint32_t)});
  if (job.rank() != 0) return;
  small.manifest.files.clear();
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    const auto space = all[rank].find(' ');
    StoredFile file{.name = all[rank].substr(0, space),
                    .length = std::stoull(all[rank].substr(space + 1))};
    file.checksums.resize(sums[rank].size() / sizeof(std::uint32_t));
    std::memcpy(file.checksums.data(), sums[rank].data(), sums[rank].size());
    small.manifest.files.push_back(file);
  }
  directory.commit(small.manifest).value();
  directory.prune({.last = 1}, {step}).value();
}

}  // namespace paceline::checkpoint::testing
