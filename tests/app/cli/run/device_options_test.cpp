#include "paceline/app/cli/run/device_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/core/base/result.h"

namespace paceline::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The options of a run whose user has not counted its processes.
launch::RunOptions uncounted(const GivenDevices& given) {
  launch::RunOptions options;
  take_devices(given, false, options);
  check_devices(options);
  return options;
}

launch::RunOptions counted(const GivenDevices& given, launch::RunOptions options) {
  take_devices(given, true, options);
  check_devices(options);
  return options;
}

launch::RunOptions processes(int count) {
  launch::RunOptions options;
  options.processes = count;
  return options;
}

std::string device_refusal(const GivenDevices& given, const launch::RunOptions& options) {
  try {
    counted(given, options);
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::misuse);
    return error.what();
  }
  return "not refused";
}

TEST(DeviceOptions, SayHowManyProcessesThereAreUnlessTheUserDoes) {
  const auto each = uncounted({.devices = "0,1"});
  EXPECT_EQ(each.processes, 2);
  EXPECT_EQ(each.ranks_per_device, 1);
  EXPECT_THAT(each.devices, ElementsAre("0", "1"));
  EXPECT_EQ(uncounted({.devices = "0,1", .ranks_per_device = "3"}).processes, 6);
  const auto in_turn = counted({.devices = "0,1"}, processes(5));
  EXPECT_EQ(in_turn.processes, 5);
  EXPECT_EQ(in_turn.ranks_per_device, 0) << "ranks take the devices in turn";
  EXPECT_EQ(counted({}, processes(3)).processes, 3);
}

TEST(DeviceOptions, RefuseProcessesThatDoNotFillTheDevices) {
  EXPECT_EQ(counted({.devices = "0,1", .ranks_per_device = "2"}, processes(4)).processes, 4);
  EXPECT_THAT(
      device_refusal({.devices = "0,1", .ranks_per_device = "2"}, processes(3)),
      HasSubstr("-n: each host has 3 processes, and --devices 0,1 with --ranks-per-device 2 "
                "make 4 on each host; give -n 4"));
  EXPECT_EQ(counted({.ranks_per_device = "2"}, processes(4)).ranks_per_device, 2);
  EXPECT_THAT(device_refusal({.ranks_per_device = "2"}, processes(3)),
              HasSubstr("no multiple of --ranks-per-device 2; give -n 4"));
  launch::RunOptions hosts;
  hosts.hosts = {{"a", 0, 4}, {"b", 4, 2}};
  EXPECT_THAT(device_refusal({.devices = "0,1", .ranks_per_device = "2"}, hosts),
              HasSubstr("--hosts: host b has 2 processes"));
  EXPECT_THAT(device_refusal({.devices = "0,1", .ranks_per_device = "2"}, hosts),
              HasSubstr("give b:4"));
}

TEST(DeviceOptions, RefuseWhatIsNoDeviceAndNoNumberOfRanks) {
  EXPECT_THAT(device_refusal({.devices = "first"}, processes(1)),
              HasSubstr("--devices: \"first\" names no device"));
  EXPECT_THAT(device_refusal({.devices = "0,0"}, processes(2)), HasSubstr("named twice"));
  EXPECT_THAT(device_refusal({.ranks_per_device = "0"}, processes(2)),
              HasSubstr("--ranks-per-device: 0 is too few"));
  EXPECT_THAT(device_refusal({.transport = "pigeon"}, processes(2)),
              HasSubstr("--device-transport: \"pigeon\" is not known"));
}

TEST(DeviceOptions, KnowNcclByEitherNameAndRefuseRanksThatShareADeviceThere) {
  EXPECT_EQ(counted({.transport = "staged"}, processes(2)).device_transport, "staged");
  auto nccl = processes(2);
  nccl.transport = "nccl";
  EXPECT_EQ(counted({}, nccl).device_transport, "nccl");
  EXPECT_EQ(counted({.devices = "0,1", .transport = "nccl"}, processes(2)).devices.size(), 2U);
  EXPECT_THAT(device_refusal({.transport = "staged"}, nccl),
              HasSubstr("another word for --device-transport nccl, and staged is given too"));
  for (const GivenDevices& shared : {GivenDevices{"0,1", "", "nccl"}, GivenDevices{"", "2", "nccl"},
                                     GivenDevices{"0,1", "2", "nccl"}}) {
    EXPECT_THAT(device_refusal(shared, processes(4)),
                HasSubstr("NCCL wants a device for each; give as many --devices"));
  }
}

TEST(DeviceOptions, CountAmongTheDevicesThatAVariableOfTheRunShows) {
  auto options = counted({.devices = "0,2"}, processes(2));
  options.passed = {"CUDA_VISIBLE_DEVICES=4,5,6"};
  EXPECT_NO_THROW(check_devices_here(options));
  options.passed = {"CUDA_VISIBLE_DEVICES=4,5"};
  EXPECT_THROW(check_devices_here(options), Error);
}

}  // namespace
}  // namespace paceline::cli
