#include "paceline/app/launch/hosts/shared_devices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/support/temporary_folder.h"

namespace paceline::launch {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(SharedDevices, AreTakenInTurnsUnlessTheDaemonOfMpsIsAmongTheProcesses) {
  const test::TemporaryFolder proc;
  const auto add = [&](const std::string& process, const std::string& name) {
    std::filesystem::create_directory(proc.file(process));
    std::ofstream(proc.file(process) + "/comm") << name << "\n";
  };
  EXPECT_FALSE(mps_is_running(proc.file("nowhere")));
  add("1", "init");
  add("sys", "nvidia-cuda");
  EXPECT_FALSE(mps_is_running(proc.path()));
  add("70", "nvidia-cuda-mps");
  EXPECT_TRUE(mps_is_running(proc.path()));
}

TEST(SharedDevices, AreToldWithWhatToDo) {
  EXPECT_THAT(devices_text(1, false), HasSubstr("1 device; ranks on one device take turns"));
  EXPECT_THAT(devices_text(2, false), HasSubstr("`nvidia-cuda-mps-control -d`"));
  EXPECT_THAT(devices_text(2, true), HasSubstr("2 devices; nvidia-cuda-mps-control runs"));
  EXPECT_THAT(devices_text(2, true), Not(HasSubstr("turns")));
}

}  // namespace
}  // namespace paceline::launch
