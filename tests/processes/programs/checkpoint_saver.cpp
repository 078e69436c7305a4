// Saves one small checkpoint by two ranks, which are threads, for tests that kill it in the middle.
//
//   checkpoint_saver DIRECTORY STEP
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/core/checkpoint/small_saves.h"
#include "tests/support/local_world.h"

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const std::string run = argv[1];
  const std::uint64_t step = std::strtoull(argv[2], nullptr, 10);
  try {
    paceline::test::run_ranks(
        2, [&](paceline::Job& job) { paceline::checkpoint::testing::save_as(job, run, step); });
    return 0;
  } catch (const paceline::Error& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
