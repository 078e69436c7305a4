#include "paceline/core/checkpoint/compare_checkpoints.h"

#include <gtest/gtest.h>

#include <limits>

#include "paceline/core/checkpoint/checkpoint.h"
#include "tests/core/checkpoint/small_checkpoints.h"
#include "tests/support/crash_disk.h"

namespace paceline::checkpoint::testing {
namespace {

// One item with one tensor of these values.
template <typename T>
struct OneTensor {
  Manifest manifest;
  std::string directory;

  OneTensor(Disk& disk, const std::string& run, const std::vector<T>& values,
            const std::string& name = "w") {
    CheckpointDirectory run_directory(disk, run);
    disk.make_directory(run).value();
    const std::string place = run_directory.begin(1).value();
    const Extents shape = {values.size()};
    const TensorBytes bytes{name, dtype_of<T>(), shape, std::as_bytes(std::span(values))};
    manifest = {.step = 1, .job = run, .generation = 1, .world_size = 1};
    manifest.files = {write_tensor_file(disk, place, "f", {&bytes, 1}, {}).value()};
    manifest.items = {{.name = "model",
                       .tensors = {{.name = name,
                                    .dtype = dtype_of<T>(),
                                    .shape = shape,
                                    .pieces = {{"f", name, {Extents(1, 0), shape}}}}}}};
    run_directory.commit(manifest).value();
    directory = run_directory.path_of(1);
  }
};

template <typename T, typename U>
std::vector<Difference> between(Disk& disk, const OneTensor<T>& a, const OneTensor<U>& b) {
  return differences(disk, a.directory, a.manifest, b.directory, b.manifest).value();
}

TEST(CompareCheckpoints, AStepIsEqualToItselfAndDiffersFromAnotherInEveryTensor) {
  test::CrashDisk disk;
  disk.make_directory("a").value();
  SmallCheckpoint one(7), other(7);
  ASSERT_TRUE(one.save(disk, "a"));
  const std::string first = "a/step-00000007";
  EXPECT_EQ(differences(disk, first, one.manifest, first, one.manifest).value().size(), 0U);
  disk.make_directory("b").value();
  ASSERT_TRUE(SmallCheckpoint(8).save(disk, "b"));
  SmallCheckpoint later(8);
  later.manifest = read_manifest(disk, "b/step-00000008").value();
  EXPECT_EQ(
      differences(disk, first, one.manifest, "b/step-00000008", later.manifest).value().size(),
      one.manifest.items[0].tensors.size())
      << "every tensor has other bytes";
}

TEST(CompareCheckpoints, TellsTheLargestDifferenceAndInHowManyElements) {
  test::CrashDisk disk;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const OneTensor<double> a(disk, "a", {1, 2, 3, 4}), b(disk, "b", {1, 2.25, 2.5, nan});
  EXPECT_EQ(between(disk, a, a).size(), 0U);
  EXPECT_EQ(
      between(disk, a, b),
      (std::vector<Difference>{{"model", "w",
                                "differs by at most 0.5 in 3 of 4 elements, of which 1 have no "
                                "difference (NaN)"}}));
  const OneTensor<std::int64_t> whole(disk, "c", {1, 2, 3, 4}), longer(disk, "d", {1, 2, 3, 4, 5});
  EXPECT_EQ(between(disk, a, whole).at(0).what, "is f64[4] and i64[4]");
  EXPECT_EQ(between(disk, whole, longer).at(0).what, "is i64[4] and i64[5]");
  const OneTensor<double> other_name(disk, "e", {1}, "v");
  EXPECT_EQ(between(disk, a, other_name),
            (std::vector<Difference>{{"model", "w", "is in the first alone"},
                                     {"model", "v", "is in the second alone"}}));
}

}  // namespace
}  // namespace paceline::checkpoint::testing
