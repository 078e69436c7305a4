#include "paceline/core/job/registered_memory.h"

#include <gtest/gtest.h>

#include <vector>

#include "paceline/core/job/use_devices.h"
#include "tests/support/late_device.h"
#include "tests/support/local_world.h"

namespace paceline::job {
namespace {

TEST(RegisteredMemory, IsRegisteredWhileItLives) {
  test::LateDevices devices(1, 2);
  test::run_ranks(1, [&](Job& job) {
    use_devices(job, devices);
    std::vector<std::byte> memory(4096);
    {
      const RegisteredMemory registered(job, 1, memory);
      EXPECT_EQ(devices.device(0).registered(), 0U);
      EXPECT_EQ(devices.device(1).registered(), 1U);
    }
    EXPECT_EQ(devices.device(1).registered(), 0U);
  });
}

TEST(RegisteredMemory, GoesOnWithoutADeviceOrOneThatRefuses) {
  test::LateDevices devices(1);
  test::run_ranks(1, [&](Job& job) {
    use_devices(job, devices);
    std::vector<std::byte> memory(4096);
    const RegisteredMemory of_no_device(job, 3, memory);
    devices.device(0).break_down("full");
    const RegisteredMemory refused(job, 0, memory);
    EXPECT_EQ(devices.device(0).registered(), 0U);
  });
}

}  // namespace
}  // namespace paceline::job
