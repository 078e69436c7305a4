#include "paceline/core/checkpoint/verify_checkpoint.h"

#include <gmock/gmock.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "paceline/core/base/seed.h"
#include "tests/core/checkpoint/small_checkpoints.h"
#include "tests/support/nightly.h"
#include "tests/support/seed.h"
#include "tests/support/temporary_folder.h"

namespace paceline::checkpoint::testing {
namespace {

using ::testing::AllOf;
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

// --- damaged, or not readable now ----------------------------------------------------------------

// The disk of this machine, on which one operation on one path fails with an errno.
class RefusingDisk final : public Disk {
 public:
  enum class Operation { none, open, read, list };
  Operation refused = Operation::none;
  std::string path;
  int error = 0;

  Result<std::unique_ptr<Source>> open(const std::string& opened) override {
    if (refuses(Operation::open, opened)) return failure("open", opened);
    auto source = disk_.open(opened);
    if (!source || !refuses(Operation::read, opened)) return source;
    return std::unique_ptr<Source>(std::make_unique<Unreadable>(*this, *std::move(source)));
  }
  Result<std::vector<Entry>> list(const std::string& directory) override {
    if (refuses(Operation::list, directory)) return failure("list", directory);
    return disk_.list(directory);
  }
  Result<std::unique_ptr<File>> create(const std::string& one) override {
    return disk_.create(one);
  }
  Result<> make_directory(const std::string& one) override { return disk_.make_directory(one); }
  Result<> rename(const std::string& from, const std::string& to) override {
    return disk_.rename(from, to);
  }
  Result<> replace(const std::string& from, const std::string& to) override {
    return disk_.replace(from, to);
  }
  Result<> exchange(const std::string& one, const std::string& other) override {
    return disk_.exchange(one, other);
  }
  Result<> remove(const std::string& one) override { return disk_.remove(one); }
  Result<> sync_directory(const std::string& one) override { return disk_.sync_directory(one); }
  Result<std::uint64_t> free_bytes(const std::string& one) override {
    return disk_.free_bytes(one);
  }

 private:
  class Unreadable final : public Source {
   public:
    Unreadable(const RefusingDisk& disk, std::unique_ptr<Source> source)
        : disk_(disk), source_(std::move(source)) {}
    std::uint64_t size() const override { return source_->size(); }
    Result<> read(std::uint64_t, MutableBytes) override {
      return disk_.failure("read", disk_.path);
    }

   private:
    const RefusingDisk& disk_;
    const std::unique_ptr<Source> source_;
  };
  bool refuses(Operation operation, const std::string& of) const {
    return refused == operation && of == path;
  }
  Failure failure(const std::string& doing, const std::string& of) const {
    return io_failure("cannot " + doing + " " + of, error);
  }

  SystemDisk disk_;
};

class DamageOf : public ::testing::Test {
 protected:
  DamageOf() { SmallCheckpoint(400).save(disk, folder.path()).value(); }

  test::TemporaryFolder folder;
  RefusingDisk disk;
  const std::string step = folder.file("step-00000400");
  const std::vector<std::string> files = {step + "/manifest.json", step + "/manifest.sha256",
                                          step + "/model-00001-of-00002.safetensors",
                                          step + "/model-00002-of-00002.safetensors"};
};

TEST_F(DamageOf, WhatTheSystemDoesNotGiveIsNoDamageWhateverTheReason) {
  EXPECT_EQ(damage_of(disk, step).value(), "");
  using Operation = RefusingDisk::Operation;
  for (const int error : {EACCES, EPERM, EIO, ESTALE, EMFILE, ENFILE, ENOMEM, ELOOP, ETIMEDOUT}) {
    for (const std::string& file : files) {
      for (const Operation operation : {Operation::open, Operation::read}) {
        SCOPED_TRACE(file + ": " + std::strerror(error));
        disk.refused = operation;
        disk.path = file;
        disk.error = error;
        const auto found = damage_of(disk, step);
        ASSERT_FALSE(found);
        EXPECT_EQ(found.error().fault, Fault::io);
        EXPECT_THAT(found.error().what, AllOf(HasSubstr(file), HasSubstr(std::strerror(error))));
      }
    }
  }
}

// A name that a server has forgotten for a moment is still in its folder.
TEST_F(DamageOf, AFileIsMissingOnlyIfItsFolderCanBeReadAndDoesNotNameIt) {
  for (const std::string& file : files) {
    SCOPED_TRACE(file);
    disk.refused = RefusingDisk::Operation::open;
    disk.path = file;
    disk.error = ENOENT;
    EXPECT_FALSE(damage_of(disk, step));
    std::filesystem::rename(file, folder.file("aside"));
    EXPECT_THAT(damage_of(disk, step).value(), HasSubstr("No such file or directory"));
    disk.refused = RefusingDisk::Operation::list;
    disk.path = step;
    disk.error = EIO;
    EXPECT_FALSE(damage_of(disk, step));
    std::filesystem::rename(folder.file("aside"), file);
  }
}

TEST_F(DamageOf, WhatIsReadAndIsWrongIsDamageAndNamesTheFile) {
  for (const std::string& file : files) {
    SCOPED_TRACE(file);
    std::filesystem::copy_file(file, folder.file("aside"));
    const auto length = std::filesystem::file_size(file);
    const auto expect_damage = [&] {
      EXPECT_THAT(damage_of(disk, step).value(), HasSubstr("is damaged"));
      std::filesystem::copy_file(folder.file("aside"), file,
                                 std::filesystem::copy_options::overwrite_existing);
      ASSERT_EQ(damage_of(disk, step).value(), "");
    };
    std::fstream(file, std::ios::in | std::ios::out | std::ios::binary)
        .seekp(static_cast<std::streamoff>(length / 2))
        .put('\x55');
    expect_damage();
    std::filesystem::resize_file(file, length - 1);
    expect_damage();
    std::filesystem::resize_file(file, 0);
    expect_damage();
    std::filesystem::resize_file(file, length + 4);
    expect_damage();
    std::filesystem::remove(folder.file("aside"));
  }
}

}  // namespace
}  // namespace paceline::checkpoint::testing
