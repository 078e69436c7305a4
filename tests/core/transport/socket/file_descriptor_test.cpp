#include "paceline/core/transport/socket/file_descriptor.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

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

}  // namespace
}  // namespace paceline::transport
