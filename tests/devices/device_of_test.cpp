#include "paceline/torch/parallel/device_of.h"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace paceline::test
