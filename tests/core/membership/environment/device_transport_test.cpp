#include "paceline/core/membership/environment/device_transport.h"

#include <gtest/gtest.h>

namespace paceline::membership {
namespace {

TEST(DeviceTransports, HaveTheNamesThatUsersWrite) {
  for (const char* name : {"auto", "direct", "nccl", "staged"}) {
    const auto found = device_transport_of(name);
    ASSERT_TRUE(found) << name;
    EXPECT_EQ(name_of(*found), name);
  }
  EXPECT_EQ(device_transport_of("auto"), DeviceTransport::automatic);
  for (const char* none : {"", "automatic", "NCCL", "staged "})
    EXPECT_FALSE(device_transport_of(none)) << none;
}

}  // namespace
}  // namespace paceline::membership
