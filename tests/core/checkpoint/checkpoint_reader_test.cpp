#include "paceline/core/checkpoint/checkpoint_reader.h"

#include <gtest/gtest.h>

#include <numeric>

#include "paceline/core/base/seed.h"
#include "tests/core/checkpoint/random_boxes.h"
#include "tests/core/checkpoint/small_checkpoints.h"
#include "tests/support/crash_disk.h"
#include "tests/support/seed.h"

namespace paceline::checkpoint::testing {
namespace {

// The elements of a box of a three-dimensional tensor whose elements are their own places in it.
std::vector<std::int32_t> elements_in(const Extents& shape, const Box& box) {
  std::vector<std::int32_t> elements;
  for (std::uint64_t i = 0; i < box.shape[0]; ++i)
    for (std::uint64_t j = 0; j < box.shape[1]; ++j)
      for (std::uint64_t k = 0; k < box.shape[2]; ++k)
        elements.push_back(static_cast<std::int32_t>(
            ((box.offset[0] + i) * shape[1] + box.offset[1] + j) * shape[2] + box.offset[2] + k));
  return elements;
}

// At least one element of a tensor of this shape.
Box random_box(SeededNumbers& numbers, const Extents& shape) {
  Box box = {Extents(shape.size()), Extents(shape.size())};
  for (std::size_t d = 0; d < shape.size(); ++d) {
    box.offset[d] = numbers.below(shape[d]);
    box.shape[d] = 1 + numbers.below(shape[d] - box.offset[d]);
  }
  return box;
}

TEST(CheckpointReader, ATensorIsTheSameHoweverItWasCut) {
  SeededNumbers numbers(test::seed(8));
  for (int round = 0; round < 200; ++round) {
    const Extents shape = {1 + numbers.below(5), 1 + numbers.below(5), 1 + numbers.below(5)};
    std::vector<Box> boxes;
    cut_randomly(numbers, {{0, 0, 0}, shape}, boxes);
    test::CrashDisk disk;
    disk.make_directory("d").value();
    LogicalTensor tensor{.name = "t", .dtype = Dtype::i32, .shape = shape};
    std::vector<std::vector<std::int32_t>> parts;
    for (const Box& box : boxes) parts.push_back(elements_in(shape, box));
    for (std::size_t i = 0; i < boxes.size(); ++i) {
      const std::string file = "f" + std::to_string(i);
      const std::vector<TensorBytes> bytes = {
          {"t", Dtype::i32, boxes[i].shape, std::as_bytes(std::span(parts[i]))}};
      write_tensor_file(disk, "d", file, bytes, {}).value();
      tensor.pieces.push_back({file, "t", boxes[i]});
    }
    std::vector<std::int32_t> read(*elements_of(shape)), expected(read.size());
    std::iota(expected.begin(), expected.end(), 0);
    ASSERT_TRUE(CheckpointReader(disk, "d").read(tensor, std::as_writable_bytes(std::span(read))));
    ASSERT_EQ(read, expected);

    const Box part = random_box(numbers, shape);
    std::vector<std::int32_t> of_part(*elements_of(part.shape));
    ASSERT_TRUE(
        CheckpointReader(disk, "d").read(tensor, part, std::as_writable_bytes(std::span(of_part))));
    ASSERT_EQ(of_part, elements_in(shape, part));
  }
}

TEST(CheckpointReader, APartOfALongTensorIsReadPieceByPiece) {
  // Rows of 3 MiB, so that a few of them are read at a time.
  const Extents shape = {7, 3 << 18};
  const Box whole = {{0, 0}, shape}, part = {{2, 5}, {4, 1000}};
  std::vector<std::uint32_t> all(*elements_of(shape));
  std::iota(all.begin(), all.end(), 0);
  test::CrashDisk disk;
  disk.make_directory("d").value();
  const std::vector<TensorBytes> bytes = {{"t", Dtype::i32, shape, std::as_bytes(std::span(all))}};
  write_tensor_file(disk, "d", "f", bytes, {}).value();
  const LogicalTensor tensor{
      .name = "t", .dtype = Dtype::i32, .shape = shape, .pieces = {{"f", "t", whole}}};
  std::vector<std::uint32_t> read(4000);
  ASSERT_TRUE(
      CheckpointReader(disk, "d").read(tensor, part, std::as_writable_bytes(std::span(read))));
  for (std::uint32_t row = 0; row < 4; ++row)
    for (std::uint32_t i = 0; i < 1000; ++i)
      ASSERT_EQ(read[row * 1000 + i], (row + 2) * (3U << 18U) + i + 5);
}

TEST(CheckpointReader, ScalarsAndTensorsWithoutElementsAreRead) {
  test::CrashDisk disk;
  disk.make_directory("d").value();
  const double one = 1.5;
  const std::vector<TensorBytes> bytes = {{"scalar", Dtype::f64, {}, bytes_of(one)},
                                          {"none", Dtype::f32, {3, 0}, {}}};
  write_tensor_file(disk, "d", "f", bytes, {}).value();
  CheckpointReader reader(disk, "d");
  double read = 0;
  const LogicalTensor scalar{
      .name = "scalar", .dtype = Dtype::f64, .pieces = {{"f", "scalar", {}}}};
  const LogicalTensor none{
      .name = "none", .shape = {3, 0}, .pieces = {{"f", "none", {{0, 0}, {3, 0}}}}};
  EXPECT_TRUE(reader.read(scalar, std::as_writable_bytes(std::span(&read, 1))));
  EXPECT_EQ(read, one);
  EXPECT_TRUE(reader.read(none, {}));
  const LogicalTensor other{.name = "x", .dtype = Dtype::f64, .pieces = {{"f", "x", {}}}};
  EXPECT_FALSE(reader.read(other, std::as_writable_bytes(std::span(&read, 1))));
}

}  // namespace
}  // namespace paceline::checkpoint::testing
