#include "paceline/core/transport/socket/resolve.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/core/base/processors.h"

namespace paceline::transport {
namespace {

using ::testing::HasSubstr;

TEST(Resolve, NumbersStayAndNamesBecomeNumbers) {
  EXPECT_EQ(resolve_tcp_address("10.1.2.3:80").value(), (TcpAddress{"10.1.2.3", 80}));
  EXPECT_EQ(resolve_tcp_address("[::1]:80").value(), (TcpAddress{"::1", 80}));
  EXPECT_EQ(resolve_tcp_address("localhost:80").value().port, 80);
  EXPECT_TRUE(is_loopback(resolve_tcp_address("localhost:80").value()));
}

TEST(Resolve, WhatIsWrongIsNamed) {
  EXPECT_THAT(resolve_tcp_address("no-such-host.invalid:80").error().what,
              HasSubstr("'no-such-host.invalid' cannot be resolved"));
  for (const char* wrong : {"", "localhost", "localhost:x", ":80", "localhost:70000"}) {
    EXPECT_EQ(resolve_tcp_address(wrong).error().fault, Fault::misuse) << wrong;
  }
}

TEST(Resolve, TheWayOutReplacesAnOwnNameThatMeansLoopback) {
  EXPECT_EQ(resolve_for_others("127.0.0.1:80").value(), (TcpAddress{"127.0.0.1", 80}))
      << "a number is meant";
  EXPECT_TRUE(is_loopback(resolve_for_others("localhost:80").value())) << "so is this name";
  const std::string own = host_name() + ":80";
  auto plain = resolve_tcp_address(own), shown = resolve_for_others(own);
  if (!plain || !is_loopback(*plain))
    GTEST_SKIP() << "NOT TESTED: " << own << " is no loopback here";
  if (shown) EXPECT_EQ(*shown, (TcpAddress{address_for_others(), 80}));
  else EXPECT_THAT(shown.error().what, HasSubstr("where no other host can connect to"));
  EXPECT_FALSE(shown && is_loopback(*shown));
}

TEST(Resolve, KnowsOwnAddresses) {
  EXPECT_TRUE(is_own_address("127.0.0.1"));
  EXPECT_FALSE(is_own_address("192.0.2.77"));
  EXPECT_EQ(source_address_to("127.0.0.1"), "127.0.0.1");
  EXPECT_EQ(source_address_to("no number"), "127.0.0.1");
  EXPECT_TRUE(is_own_address(address_for_others()));
}

}  // namespace
}  // namespace paceline::transport
