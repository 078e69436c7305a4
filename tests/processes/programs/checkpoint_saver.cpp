// Saves one small checkpoint by two ranks, which are threads, for tests that kill it in the middle.
//
//   checkpoint_saver DIRECTORY STEP
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "paceline/core/checkpoint/checkpoint.h"
#include "paceline/core/collective/collective.h"
#include "tests/core/checkpoint/small_checkpoints.h"
#include "tests/support/local_world.h"

namespace {

namespace checkpoint = paceline::checkpoint;
using checkpoint::testing::SmallCheckpoint;

void save_as(paceline::Job& job, const std::string& run, std::uint64_t step) {
  paceline::SystemDisk disk;
  checkpoint::CheckpointDirectory directory(disk, run);
  std::string place;
  if (job.rank() == 0) place = directory.begin(step).value();
  place = paceline::broadcast_bytes(job.world(), place);
  SmallCheckpoint small(step, /*elements=*/3000);
  const auto& own = small.files.at(static_cast<std::size_t>(job.rank()));
  small.manifest.files = {
      checkpoint::write_tensor_file(disk, place, own.name, own.tensors, {}).value()};
  // All ranks have the same manifest but for their files.
  const auto all =
      paceline::gather_bytes(job.world(), small.manifest.files[0].name + " " +
                                              std::to_string(small.manifest.files[0].length));
  const auto sums = paceline::gather_bytes(
      job.world(), {reinterpret_cast<const char*>(small.manifest.files[0].checksums.data()),
                    small.manifest.files[0].checksums.size() * sizeof(std::uint32_t)});
  if (job.rank() != 0) return;
  small.manifest.files.clear();
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    const auto space = all[rank].find(' ');
    checkpoint::StoredFile file{.name = all[rank].substr(0, space),
                                .length = std::stoull(all[rank].substr(space + 1))};
    file.checksums.resize(sums[rank].size() / sizeof(std::uint32_t));
    std::memcpy(file.checksums.data(), sums[rank].data(), sums[rank].size());
    small.manifest.files.push_back(file);
  }
  directory.commit(small.manifest).value();
  directory.prune({.last = 1}, {step}).value();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const std::string run = argv[1];
  const std::uint64_t step = std::strtoull(argv[2], nullptr, 10);
  try {
    paceline::test::run_ranks(2, [&](paceline::Job& job) { save_as(job, run, step); });
    return 0;
  } catch (const paceline::Error& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
