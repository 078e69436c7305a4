#include "paceline/core/device/device_plugin.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::device {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(DevicePlugin, OneThatIsNotThereIsToldWithWhereItWasLookedForAndTheRemedy) {
  const auto devices = load_devices("nobodys", {"/a/folder"});
  ASSERT_FALSE(devices);
  EXPECT_EQ(devices.error().fault, Fault::misuse);
  EXPECT_THAT(devices.error().what, AllOf(HasSubstr("/a/folder/libpaceline_nobodys.so"),
                                          HasSubstr("libpaceline_nobodys.so cannot be loaded")));
}

}  // namespace
}  // namespace paceline::device
