#include "paceline/core/base/disk.h"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "tests/support/failing_calls.h"
#include "tests/support/temporary_folder.h"

namespace paceline {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class DiskTest : public ::testing::Test {
 protected:
  void write(const std::string& name, std::string_view text) {
    auto file = disk.create(folder.file(name)).value();
    file->append(std::as_bytes(std::span(text))).value();
    file->sync().value();
  }
  std::string read(const std::string& name) {
    const auto file = disk.open(folder.file(name)).value();
    std::string text(file->size(), '\0');
    file->read(0, std::as_writable_bytes(std::span(text))).value();
    return text;
  }
  std::vector<std::string> names() {
    std::vector<std::string> found;
    for (const Disk::Entry& entry : disk.list(folder.path()).value()) found.push_back(entry.name);
    return found;
  }

  test::TemporaryFolder folder;
  SystemDisk disk;
};

TEST_F(DiskTest, AFileHasWhatWasAppendedHoweverMuchWasReserved) {
  auto file = disk.create(folder.file("a")).value();
  file->reserve(1 << 20).value();
  file->append(std::as_bytes(std::span("one ", 4))).value();
  file->append({}).value();
  file->append(std::as_bytes(std::span("two", 3))).value();
  file->sync().value();
  EXPECT_EQ(read("a"), "one two");
}

TEST_F(DiskTest, NothingIsWrittenOverOrThroughALink) {
  write("a", "old");
  EXPECT_THAT(disk.create(folder.file("a")).error().what, HasSubstr(folder.file("a")));
  std::filesystem::create_symlink(folder.file("elsewhere"), folder.file("link"));
  EXPECT_FALSE(disk.create(folder.file("link")));
  EXPECT_FALSE(std::filesystem::exists(folder.file("elsewhere")));
  EXPECT_EQ(read("a"), "old");
}

TEST_F(DiskTest, OnlyOrdinaryFilesAreOpenedAndAPipeIsNotWaitedFor) {
  write("a", "text");
  std::filesystem::create_symlink(folder.file("a"), folder.file("link"));
  ASSERT_EQ(::mkfifo(folder.file("pipe").c_str(), 0600), 0);
  EXPECT_FALSE(disk.open(folder.file("link")));
  EXPECT_FALSE(disk.open(folder.file("pipe")));
  EXPECT_FALSE(disk.open(folder.path()));
  EXPECT_THAT(disk.open(folder.file("none")).error().what, HasSubstr("No such file"));
}

TEST_F(DiskTest, ReadingBeyondTheEndIsAFailureThatNamesTheFile) {
  write("a", "text");
  const auto file = disk.open(folder.file("a")).value();
  std::array<std::byte, 3> into{};
  EXPECT_TRUE(file->read(1, into));
  EXPECT_THAT(file->read(2, into).error().what, HasSubstr(folder.file("a")));
}

TEST_F(DiskTest, RenamingReplacesNothingAndExchangingSwaps) {
  disk.make_directory(folder.file("one")).value();
  disk.make_directory(folder.file("two")).value();
  disk.make_directory(folder.file("two")).value();
  write("one/a", "first");
  write("two/a", "second");
  EXPECT_FALSE(disk.rename(folder.file("one"), folder.file("two")));
  disk.exchange(folder.file("one"), folder.file("two")).value();
  EXPECT_EQ(read("one/a"), "second");
  EXPECT_EQ(read("two/a"), "first");
  disk.rename(folder.file("one"), folder.file("three")).value();
  EXPECT_EQ(read("three/a"), "second");
  EXPECT_FALSE(disk.exchange(folder.file("one"), folder.file("two")));
}

TEST_F(DiskTest, ATreeIsRemovedAndWhatItsLinksNameStays) {
  write("kept", "text");
  disk.make_directory(folder.file("tree")).value();
  disk.make_directory(folder.file("tree/inner")).value();
  write("tree/inner/a", "text");
  std::filesystem::create_symlink(folder.path(), folder.file("tree/up"));
  EXPECT_FALSE(disk.remove(folder.file("tree"))) << "it is not empty";
  remove_tree(disk, folder.file("tree")).value();
  EXPECT_EQ(names(), std::vector<std::string>{"kept"});
}

TEST_F(DiskTest, EntriesTellTheirKindAndAMissingDirectoryHasNone) {
  write("file", "");
  disk.make_directory(folder.file("directory")).value();
  std::filesystem::create_symlink(folder.file("file"), folder.file("link"));
  const auto entries = disk.list(folder.path()).value();
  ASSERT_EQ(entries.size(), 3U);
  EXPECT_EQ(entries[0].kind, Disk::Entry::Kind::directory);
  EXPECT_EQ(entries[1].kind, Disk::Entry::Kind::file);
  EXPECT_EQ(entries[2].kind, Disk::Entry::Kind::other);
  EXPECT_TRUE(disk.list(folder.file("none")).value().empty());
  EXPECT_FALSE(disk.list(folder.file("file")));
  EXPECT_GT(disk.free_bytes(folder.path()).value(), 0U);
  EXPECT_TRUE(disk.sync_directory(folder.path()));
  EXPECT_FALSE(disk.sync_directory(folder.file("none")));
}

// Such as in a folder that may be listed and not searched.
TEST_F(DiskTest, AnEntryWhoseKindCannotBeAskedForIsAFailureThatNamesIt) {
  std::filesystem::create_directory(folder.file("listed"));
  std::filesystem::create_directory(folder.file("listed/step-00000004"));
  std::filesystem::permissions(folder.path(), std::filesystem::perms{0755});
  std::filesystem::permissions(folder.file("listed"), std::filesystem::perms{0444});
  std::thread([&] {
    ASSERT_TRUE(test::give_up_root_in_this_thread());
    const auto entries = disk.list(folder.file("listed"));
    ASSERT_FALSE(entries);
    EXPECT_THAT(entries.error().what,
                AllOf(HasSubstr("step-00000004"), HasSubstr("Permission denied")));
  }).join();
}

}  // namespace
}  // namespace paceline
