#include "paceline/torch/parallel/device_of.h"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "paceline/core/base/result.h"
#include "tests/devices/cuda_double.h"
#include "tests/support/local_world.h"

namespace paceline::test {
namespace {

TEST(DeviceOf, GivesRanksOfAHostTheirDevicesInTurn) {
  run_ranks(2 * kDevices - 1, [](Job& job) {
    const at::Device device = device_of(job);
    EXPECT_TRUE(device.is_cuda());
    EXPECT_EQ(device.index(), job.local_rank() % kDevices);
    EXPECT_EQ(c10::impl::VirtualGuardImpl(at::kCUDA).getDevice(), device);
  });
}

// The variable by which `paceline run --ranks-per-device` tells how ranks share devices.
class RanksPerDevice {
 public:
  explicit RanksPerDevice(int ranks) {
    ::setenv("PACELINE_RANKS_PER_DEVICE", std::to_string(ranks).c_str(), 1);
  }
  ~RanksPerDevice() { ::unsetenv("PACELINE_RANKS_PER_DEVICE"); }
  RanksPerDevice(const RanksPerDevice&) = delete;
  RanksPerDevice& operator=(const RanksPerDevice&) = delete;
};

TEST(DeviceOf, GivesNeighboursOneDeviceWhereTheLauncherSaysHowManyShareIt) {
  constexpr int kEach = 2;
  const RanksPerDevice sharing(kEach);
  run_ranks(kEach * kDevices, [](Job& job) {
    const at::Device device = device_of(job);
    EXPECT_TRUE(device.is_cuda());
    EXPECT_EQ(device.index(), job.local_rank() / kEach);
  });
}

TEST(DeviceOf, RefusesADeviceThatIsNotThereByItsNumberAndTheRemedy) {
  const RanksPerDevice sharing(1);
  run_ranks(kDevices + 1, [](Job& job) {
    if (job.rank() < kDevices) {
      EXPECT_EQ(device_of(job).index(), job.rank());
      return;
    }
    try {
      (void)device_of(job);
      ADD_FAILURE() << "rank " << job.rank() << " got a device";
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::misuse);
      const std::string what = error.what();
      EXPECT_NE(what.find("is to have device " + std::to_string(kDevices)), std::string::npos)
          << what;
      EXPECT_NE(what.find("--devices"), std::string::npos) << what;
    }
  });
}

}  // namespace
}  // namespace paceline::test
