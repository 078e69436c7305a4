#include "paceline/core/transport/socket/open_files.h"

#include <gtest/gtest.h>

#include "tests/support/limit.h"

namespace paceline::transport {
namespace {

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
