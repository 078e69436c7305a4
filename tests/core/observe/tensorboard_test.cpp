#include "paceline/core/observe/tensorboard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "paceline/core/base/crc32c.h"
#include "paceline/core/base/result.h"

namespace paceline::observe {
namespace {

using ::testing::HasSubstr;

template <typename T>
T take(std::string_view& bytes) {
  T value;
  std::memcpy(&value, bytes.data(), sizeof(T));
  bytes.remove_prefix(sizeof(T));
  return value;
}

std::uint32_t unmasked(std::uint32_t masked) {
  const std::uint32_t rotated = masked - 0xa282ead8U;
  return (rotated >> 17) | (rotated << 15);
}

// TensorBoard's own loader reads it in tests/readers.
TEST(TensorBoardFile, IsASequenceOfWholeRecordsWithGoodChecksums) {
  const std::string folder = testing::TempDir() + "paceline_board/deep";
  TensorBoardFile board(folder);
  constexpr int kSteps = 5;
  for (int step = 1; step <= kSteps; ++step) board.write(step, {{"loss", 1.0 / step}});
  std::ostringstream text;
  text << std::ifstream(board.path(), std::ios::binary).rdbuf();
  const std::string bytes = text.str();
  int records = 0;
  for (std::string_view rest = bytes; !rest.empty(); ++records) {
    const auto length_bytes = rest.substr(0, sizeof(std::uint64_t));
    const auto length = take<std::uint64_t>(rest);
    EXPECT_EQ(unmasked(take<std::uint32_t>(rest)), crc32c(std::as_bytes(std::span(length_bytes))));
    ASSERT_LE(length + sizeof(std::uint32_t), rest.size());
    const auto event = rest.substr(0, length);
    rest.remove_prefix(length);
    EXPECT_EQ(unmasked(take<std::uint32_t>(rest)), crc32c(std::as_bytes(std::span(event))));
  }
  EXPECT_EQ(records, 1 + kSteps);
  std::filesystem::remove_all(testing::TempDir() + "paceline_board");
}

TEST(TensorBoardFile, TwoOfOneFolderDoNotMeet) {
  const std::string folder = testing::TempDir() + "paceline_board_two";
  const TensorBoardFile one(folder), other(folder);
  EXPECT_NE(one.path(), other.path());
  std::filesystem::remove_all(folder);
}

TEST(TensorBoardFile, AFolderThatCannotBeMadeIsNamed) {
  try {
    const TensorBoardFile board("/dev/null/board");
    FAIL() << "/dev/null is no folder";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("/dev/null/board"));
  }
}

}  // namespace
}  // namespace paceline::observe
