#include "paceline/core/checkpoint/directory_lock.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>

#include "tests/support/failing_calls.h"
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

// --- without locks -------------------------------------------------------------------------------

TEST(DirectoryLock, WhereTheFileSystemHasNoLocksALeaseHoldsTheDirectory) {
  for (const int error : {ENOSYS, EOPNOTSUPP, ENOLCK}) {
    const test::TemporaryFolder folder;
    const bool has_run = test::where_calls_fail(SYS_flock, error, [&] {
      {
        const auto first = DirectoryLock::take(folder.path(), "job a, host h, process 1");
        ASSERT_TRUE(first) << first.error().what;
        EXPECT_EQ(DirectoryLock::owner_of(folder.path()).value(), "job a, host h, process 1");
        const auto second = DirectoryLock::take(folder.path(), "job b");
        ASSERT_FALSE(second);
        EXPECT_EQ(second.error().fault, Fault::misuse);
        EXPECT_THAT(second.error().what,
                    AllOf(HasSubstr("job a, host h, process 1"), HasSubstr("remove that file"),
                          HasSubstr(folder.file(".lease"))));
      }
      EXPECT_TRUE(DirectoryLock::take(folder.path(), "job b"));
      EXPECT_FALSE(std::filesystem::exists(folder.file(".lease")));
    });
    ASSERT_TRUE(has_run);
  }
}

TEST(DirectoryLock, ALeaseEndsWithTheProcessThatHoldsItHoweverThatEnds) {
  const test::TemporaryFolder folder;
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    if (!test::fail_calls_of_this_thread(SYS_flock, ENOSYS)) ::_exit(1);
    const auto lock = DirectoryLock::take(folder.path(), "the child");
    const char sign = lock ? 'y' : 'n';
    if (::write(ready[1], &sign, 1) != 1) ::_exit(1);
    for (;;) ::pause();
  }
  char sign = 0;
  ASSERT_EQ(::read(ready[0], &sign, 1), 1);
  ASSERT_EQ(sign, 'y');
  // Those whose system has locks see it too.
  EXPECT_FALSE(DirectoryLock::take(folder.path(), "me"));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_TRUE(DirectoryLock::take(folder.path(), "me"));
  EXPECT_FALSE(std::filesystem::exists(folder.file(".lease")));
  ::close(ready[0]);
  ::close(ready[1]);
}

// The lease that this process writes, with one line of it changed.
class ChangedLease : public ::testing::Test {
 protected:
  static void without_locks(const std::function<void()>& body) {
    ASSERT_TRUE(test::where_calls_fail(SYS_flock, ENOSYS, body));
  }
  void change(const std::string& name, const std::string& value) {
    without_locks([&] {
      const auto lease = DirectoryLock::take(folder.path(), "the first", {"a job", 3});
      ASSERT_TRUE(lease);
      std::filesystem::copy_file(path, folder.file("kept"));
    });
    std::ifstream kept(folder.file("kept"));
    std::ofstream changed(path);
    for (std::string line; std::getline(kept, line);)
      changed << (line.starts_with(name + " ") ? name + " " + value : line) << "\n";
    std::filesystem::remove(folder.file("kept"));
  }
  // Empty: it was free.
  std::string refusal(const RunOfJob& run = {"another job", 1}) {
    std::string why;
    without_locks([&] {
      const auto lease = DirectoryLock::take(folder.path(), "the second", run);
      if (!lease) why = lease.error().what;
    });
    return why;
  }

  const test::TemporaryFolder folder;
  const std::string path = folder.file(".lease");
};

TEST_F(ChangedLease, OfALivingProcessHolds) {
  change("owner", "");
  EXPECT_THAT(refusal(), HasSubstr("in use by the first"));
}

TEST_F(ChangedLease, OfAProcessThatIsNoMoreIsOver) {
  change("process", "999999999");
  EXPECT_EQ(refusal(), "");
}

TEST_F(ChangedLease, OfAProcessWhoseNumberAnotherOneHasNowIsOver) {
  change("start", "1");
  EXPECT_EQ(refusal(), "");
}

TEST_F(ChangedLease, OfTheTimeBeforeTheHostWasStartedAgainIsOver) {
  change("boot", "00000000-0000-0000-0000-000000000000");
  EXPECT_EQ(refusal(), "");
}

TEST_F(ChangedLease, OfAnotherHostOrContainerCannotBeLookedUpAndHolds) {
  change("processes", "pid:[1]");
  EXPECT_THAT(refusal(), HasSubstr("if it has ended, remove that file"));
  std::filesystem::remove(path);
  change("host", "another-host");
  EXPECT_THAT(refusal(), HasSubstr("in use by the first"));
  // A launcher starts the next generation when the former has ended.
  EXPECT_THAT(refusal({"a job", 3}), HasSubstr("in use by the first"));
  EXPECT_EQ(refusal({"a job", 4}), "");
}

TEST_F(ChangedLease, ThatSomebodyElseHasTakenOverStaysTheirs) {
  without_locks([&] {
    const auto lease = DirectoryLock::take(folder.path(), "the first");
    std::ofstream(path) << "somebody else\n";
  });
  EXPECT_TRUE(std::filesystem::exists(path));
  EXPECT_THAT(refusal(), HasSubstr("in use by somebody else"));
}

}  // namespace
}  // namespace paceline::checkpoint
