#include "paceline/core/job/own_device.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/support/late_device.h"

namespace paceline::job {
namespace {

using membership::DeviceTransport;

TEST(OwnDevice, IsToldOnlyWhereACarrierDependsOnIt) {
  membership::Environment e;
  EXPECT_FALSE(tells_device(e)) << "bits must stay";
  e.reproducible = false;
  EXPECT_TRUE(tells_device(e));
  e.engine = "mpi_openmpi";
  EXPECT_FALSE(tells_device(e)) << "one engine carries a job";
  e.engine = "nccl";
  e.device_transport = DeviceTransport::nccl;
  EXPECT_TRUE(tells_device(e));
  for (const auto transport : {DeviceTransport::staged, DeviceTransport::direct}) {
    e.device_transport = transport;
    EXPECT_FALSE(tells_device(e)) << name_of(transport);
  }
}

TEST(OwnDevice, IsThatWithTheNumberOfTheRankInTurnOrShared) {
  test::LateDevices devices(1, 3);
  const auto number_of = [&](int local_rank, int sharing) {
    const auto told = device_of_rank(devices, local_rank, sharing);
    for (int number = 0; number < 3; ++number)
      if (device_of_rank(devices, number, 1) == told) return number;
    return -1;
  };
  EXPECT_EQ(device_of_rank(devices, 0, 0).identity.size(), 32U);
  EXPECT_EQ(number_of(1, 0), 1);
  EXPECT_EQ(number_of(4, 0), 1) << "in turn";
  EXPECT_EQ(number_of(4, 2), 2) << "two neighbours have one";
  EXPECT_EQ(device_of_rank(devices, 6, 2).identity, "") << "there is no fourth one";
}

}  // namespace
}  // namespace paceline::job
