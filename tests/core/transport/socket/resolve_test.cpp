#include "paceline/core/transport/socket/resolve.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

TEST(Resolve, KnowsOwnAddresses) {
  EXPECT_TRUE(is_own_address("127.0.0.1"));
  EXPECT_FALSE(is_own_address("192.0.2.77"));
  EXPECT_EQ(source_address_to("127.0.0.1"), "127.0.0.1");
  EXPECT_EQ(source_address_to("no number"), "127.0.0.1");
  EXPECT_TRUE(is_own_address(address_for_others()));
}

}  // namespace
}  // namespace paceline::transport
