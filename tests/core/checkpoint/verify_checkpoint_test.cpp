#include "paceline/core/checkpoint/verify_checkpoint.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "paceline/core/base/seed.h"
#include "tests/core/checkpoint/small_checkpoints.h"
#include "tests/support/nightly.h"
#include "tests/support/seed.h"
#include "tests/support/temporary_folder.h"

namespace paceline::checkpoint::testing {
namespace {

using ::testing::HasSubstr;

class VerifyCheckpoint : public ::testing::Test {
 protected:
  VerifyCheckpoint() {
    SmallCheckpoint(400, 200'000).save(disk, folder.path()).value();
    step = CheckpointDirectory(disk, folder.path()).path_of(400);
  }
  std::string file(int rank) const {
    return step + "/model-0000" + std::to_string(rank + 1) + "-of-00002.safetensors";
  }
  // "" if all is sound; else the damage, as file, tensors and text.
  std::string found() {
    const auto manifest = read_manifest(disk, step);
    if (!manifest) return manifest.error().what;
    std::string text;
    for (const Damage& damage : damages(disk, step, manifest.value()))
      text += damage.file + ": " + damage.tensors + ": " + damage.what + "\n";
    return text;
  }
  static void flip(const std::string& path, std::uint64_t bit) {
    std::fstream stream(path, std::ios::in | std::ios::out | std::ios::binary);
    stream.seekg(static_cast<std::streamoff>(bit / 8));
    const int byte = stream.get() ^ (1 << (bit % 8));
    stream.seekp(static_cast<std::streamoff>(bit / 8));
    stream.put(static_cast<char>(byte));
  }
  void expect_each_flip_found(const std::string& path, const std::vector<std::uint64_t>& bits) {
    for (const std::uint64_t bit : bits) {
      flip(path, bit);
      ASSERT_NE(found(), "") << path << ", bit " << bit;
      flip(path, bit);
    }
    ASSERT_EQ(found(), "");
  }

  test::TemporaryFolder folder;
  SystemDisk disk;
  std::string step;
};

TEST_F(VerifyCheckpoint, FindsEachFlippedBitOfManifestsAndHeadersAndAnyOfTensors) {
  SeededNumbers numbers(test::seed(6));
  const std::uint64_t rounds = test::is_nightly() ? 1000 : 40;
  for (const char* name : {"manifest.json", "manifest.sha256"}) {
    const std::string path = step + "/" + name;
    const std::uint64_t all = 8 * std::filesystem::file_size(path);
    std::vector<std::uint64_t> bits;
    for (std::uint64_t i = 0; i < (test::is_nightly() ? all : 200); ++i)
      bits.push_back(test::is_nightly() ? i : numbers.below(all));
    expect_each_flip_found(path, bits);
  }
  for (const int rank : {0, 1}) {
    const std::uint64_t all = 8 * std::filesystem::file_size(file(rank));
    std::vector<std::uint64_t> bits;
    for (std::uint64_t i = 0; i < rounds; ++i) {
      bits.push_back(numbers.below(all));
      bits.push_back(numbers.below(8 * 300));  // the header
    }
    expect_each_flip_found(file(rank), bits);
  }
}

TEST_F(VerifyCheckpoint, NamesTheFileAndTheTensorsOfADamagedPart) {
  EXPECT_EQ(found(), "");
  flip(file(0), 8 * (std::filesystem::file_size(file(0)) - 1));
  EXPECT_THAT(found(),
              HasSubstr("model-00001-of-00002.safetensors: fc.weight, cut, random@0: its MiB 1"));
  flip(file(1), 8 * 500'000);
  EXPECT_THAT(found(), HasSubstr("model-00002-of-00002.safetensors: fc.bias: its MiB 0"));
}

TEST_F(VerifyCheckpoint, FindsFilesThatAreCutMissingSwappedLinkedOrOfAnotherStep) {
  const std::string aside = folder.file("aside");
  const auto length = std::filesystem::file_size(file(0));
  std::filesystem::copy(file(0), aside);
  const auto restore = [&] {
    std::filesystem::remove(file(0));
    std::filesystem::copy(aside, file(0));
    ASSERT_EQ(found(), "");
  };
  for (const std::uint64_t kept :
       {std::uint64_t{0}, std::uint64_t{7}, std::uint64_t{100}, length - 1}) {
    std::filesystem::resize_file(file(0), kept);
    EXPECT_THAT(found(), HasSubstr("instead of")) << kept;
    restore();
  }
  std::filesystem::remove(file(0));
  EXPECT_THAT(found(), HasSubstr("fc.weight"));
  restore();
  std::filesystem::remove(file(0));
  std::filesystem::create_symlink(aside, file(0));
  EXPECT_NE(found(), "");
  restore();
  std::filesystem::rename(file(0), aside);
  std::filesystem::rename(file(1), file(0));
  std::filesystem::copy(aside, file(1));
  EXPECT_THAT(found(), HasSubstr("model-00001"));
  EXPECT_THAT(found(), HasSubstr("model-00002"));
  std::filesystem::rename(file(0), file(1));
  SmallCheckpoint(500, 200'000).save(disk, folder.path()).value();
  std::filesystem::copy(
      CheckpointDirectory(disk, folder.path()).path_of(500) + "/model-00001-of-00002.safetensors",
      file(0));
  EXPECT_THAT(found(), HasSubstr("differs from its checksum"));
}

TEST_F(VerifyCheckpoint, AManifestOfAnotherStepIsNotTakenForThisOnes) {
  const std::string other = folder.file("step-00000401");
  std::filesystem::rename(step, other);
  step = other;
  EXPECT_THAT(found(), HasSubstr("it is of step 400"));
}

}  // namespace
}  // namespace paceline::checkpoint::testing
