#include "paceline/core/checkpoint/write_tensor_file.h"

#include <gmock/gmock.h>

#include "tests/core/checkpoint/small_checkpoints.h"
#include "tests/support/crash_disk.h"

namespace paceline::checkpoint::testing {
namespace {

TEST(WriteTensorFile, TheFileHasTheTensorsBytesWhereItsHeaderTells) {
  test::CrashDisk disk;
  disk.make_directory("d").value();
  const SmallCheckpoint checkpoint(7, 100'000);
  const auto& tensors = checkpoint.files[0].tensors;
  const StoredFile stored = write_tensor_file(disk, "d", "f", tensors, {{"step", "7"}}).value();
  const auto file = disk.open("d/f").value();
  EXPECT_EQ(stored.length, file->size());
  const TensorFileHeader header = read_header(*file, "d/f").value();
  EXPECT_EQ(header.metadata.at("step"), "7");
  ASSERT_EQ(header.tensors.size(), tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const StoredTensor& place = header.tensors[i];
    EXPECT_EQ(place.name, tensors[i].key);
    std::vector<std::byte> bytes(place.end - place.begin);
    file->read(header.data_begin + place.begin, bytes).value();
    EXPECT_TRUE(std::ranges::equal(bytes, tensors[i].bytes)) << place.name;
  }
}

TEST(WriteTensorFile, RefusesBytesThatAreNotThoseOfTheShape) {
  test::CrashDisk disk;
  const std::vector<std::byte> bytes(7);
  const std::vector<TensorBytes> wrong = {{"a", Dtype::f32, {2}, bytes}};
  EXPECT_THROW((void)write_tensor_file(disk, "", "f", wrong, {}), Error);
}

}  // namespace
}  // namespace paceline::checkpoint::testing
