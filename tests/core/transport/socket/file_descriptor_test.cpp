#include "paceline/core/transport/socket/file_descriptor.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/limit.h"

namespace paceline::transport {
namespace {

bool is_open(int fd) {
  return ::fcntl(fd, F_GETFD) >= 0;
}
int opened() {
  return ::open("/dev/null", O_RDONLY | O_CLOEXEC);
}

TEST(FileDescriptor, ClosesItselfOnce) {
  const int raw = opened();
  {
    FileDescriptor first(raw);
    FileDescriptor second(std::move(first));
    EXPECT_FALSE(first.is_open());
    EXPECT_EQ(second.get(), raw);
    EXPECT_TRUE(is_open(raw));
  }
  EXPECT_FALSE(is_open(raw));
}

TEST(FileDescriptor, AssignmentClosesWhatItHeldAndSurvivesItself) {
  FileDescriptor one(opened()), two(opened());
  const int first = one.get(), second = two.get();
  one = std::move(two);
  EXPECT_FALSE(is_open(first));
  EXPECT_TRUE(is_open(second));
  FileDescriptor& same = one;
  one = std::move(same);
  EXPECT_EQ(one.get(), second);
  one.reset();
  EXPECT_FALSE(is_open(second));
  EXPECT_FALSE(one.is_open());
}

TEST(FileDescriptor, ReleasedItStaysOpen) {
  FileDescriptor one(opened());
  const int raw = one.release();
  one.reset();
  EXPECT_TRUE(is_open(raw));
  ::close(raw);
}

// The child opens something else by the same number, which is its own.
TEST(FileDescriptor, OfThisProcessAloneItIsClosedInAChild) {
  watch_forks();
  FileDescriptor alone(opened()), common(opened());
  alone.close_in_children();
  const pid_t child = ::fork();
  if (child == 0) {
    if (is_open(alone.get()) || !is_open(common.get())) ::_exit(1);
    const int again = opened();
    if (again != alone.get()) ::_exit(2);
    alone.reset();
    ::_exit(is_open(again) ? 0 : 3);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(is_open(alone.get()));
  const int raw = alone.get();
  alone.reset();
  EXPECT_FALSE(is_open(raw));
}

TEST(FileDescriptor, ReleasedItIsNoLongerOfThisProcessAlone) {
  watch_forks();
  FileDescriptor alone(opened());
  alone.close_in_children();
  const FileDescriptor released(alone.release());
  const pid_t child = ::fork();
  if (child == 0) ::_exit(is_open(released.get()) ? 0 : 1);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

rlimit open_files_limit() {
  rlimit limit = {};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  return limit;
}

TEST(OpenFiles, TheSoftLimitIsRaisedWhereItIsTooLowAndNotElse) {
  const rlim_t soft = test::next_file() + 20;
  const test::Limit limit(RLIMIT_NOFILE, soft);
  EXPECT_TRUE(make_room_for_files(5, "this test"));
  EXPECT_EQ(open_files_limit().rlim_cur, soft);
  EXPECT_TRUE(make_room_for_files(50, "this test"));
  EXPECT_EQ(open_files_limit().rlim_cur, open_files_limit().rlim_max);
}

TEST(OpenFiles, MoreThanTheHardLimitAreRefusedWithLimitNeedAndRemedy) {
  const test::Limit limit(RLIMIT_NOFILE, open_files_limit().rlim_cur);  // sets it back
  const auto hard = static_cast<std::size_t>(open_files_limit().rlim_max);
  if (hard == RLIM_INFINITY) GTEST_SKIP() << "this system has no limit of open files";
  const auto refused = make_room_for_files(hard, "rank 3 of 64");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().fault, Fault::io);
  const std::string& what = refused.error().what;
  EXPECT_TRUE(what.starts_with("rank 3 of 64 needs ")) << what;
  EXPECT_NE(what.find("its limit is " + std::to_string(hard) + " (RLIMIT_NOFILE)"),
            std::string::npos)
      << what;
  EXPECT_NE(what.find("`ulimit -n "), std::string::npos) << what;
}

}  // namespace

}  // namespace paceline::transport
