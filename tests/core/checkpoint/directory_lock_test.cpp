#include "paceline/core/checkpoint/directory_lock.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "tests/support/temporary_folder.h"

namespace paceline::checkpoint {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(DirectoryLock, ASecondOwnerIsRefusedByTheNameOfTheFirst) {
  const test::TemporaryFolder folder;
  {
    const auto first = DirectoryLock::take(folder.path(), "job a, host h, process 1");
    ASSERT_TRUE(first);
    EXPECT_EQ(DirectoryLock::owner_of(folder.path()).value(), "job a, host h, process 1");
    const auto second = DirectoryLock::take(folder.path(), "job b");
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().fault, Fault::misuse);
    EXPECT_THAT(second.error().what,
                AllOf(HasSubstr(folder.path().string()), HasSubstr("job a, host h, process 1")));
    EXPECT_EQ(DirectoryLock::owner_of(folder.path()).value(), "job a, host h, process 1");
  }
  EXPECT_TRUE(DirectoryLock::take(folder.path(), "job b"));
}

TEST(DirectoryLock, EndsWithTheProcessThatHoldsIt) {
  const test::TemporaryFolder folder;
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const auto lock = DirectoryLock::take(folder.path(), "the child");
    const char sign = lock ? 'y' : 'n';
    if (::write(ready[1], &sign, 1) != 1) ::_exit(1);
    for (;;) ::pause();
  }
  char sign = 0;
  ASSERT_EQ(::read(ready[0], &sign, 1), 1);
  ASSERT_EQ(sign, 'y');
  EXPECT_FALSE(DirectoryLock::take(folder.path(), "me"));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_TRUE(DirectoryLock::take(folder.path(), "me"));
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST(DirectoryLock, WhereNothingCanBeWrittenTheDirectoryIsNamed) {
  const test::TemporaryFolder folder;
  const auto missing = DirectoryLock::take(folder.file("none"), "me");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().fault, Fault::io);
  EXPECT_THAT(missing.error().what,
              AllOf(HasSubstr(folder.file("none")), HasSubstr("No such file or directory")));
  EXPECT_FALSE(DirectoryLock::owner_of(folder.path()));
}

}  // namespace
}  // namespace paceline::checkpoint
