// Covers use_devices.h too.
#include "paceline/core/job/device_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "paceline/core/job/use_devices.h"
#include "tests/support/late_device.h"
#include "tests/support/local_world.h"
#include "tests/support/misuse.h"
#include "tests/support/seed.h"

namespace paceline::job {
namespace {

using ::testing::HasSubstr;

TEST(DeviceMemory, HoldsWhatWasWrittenAndTakesPartInCalls) {
  test::LateDevices devices(test::seed(4430), 2);
  test::run_ranks(2, [&](Job& job) {
    use_devices(job, devices);
    EXPECT_EQ(count_devices(job), 2);
    DeviceMemory memory(job, job.rank(), 100 * sizeof(float));
    std::vector<float> values(100, static_cast<float>(1 + job.rank())), read(100);
    memory.write(std::as_bytes(std::span(values)));
    memory.read(std::as_writable_bytes(std::span(read)));
    EXPECT_EQ(read, values);
    job.world().all_reduce(memory.buffer(40, 90, Dtype::f32)).wait();
    memory.read(std::as_writable_bytes(std::span(read)));
    for (std::size_t i = 0; i < 100; ++i) EXPECT_EQ(read[i], i < 10 ? values[i] : 3);
    job.world().barrier().wait();
  });
}

TEST(DeviceMemory, OfADeviceThatIsNotThereIsRefused) {
  test::LateDevices devices(test::seed(4430), 2);
  test::run_ranks(1, [&](Job& job) {
    use_devices(job, devices);
    EXPECT_TRUE(sees_device(job, 1));
    EXPECT_FALSE(sees_device(job, 2));
    EXPECT_THAT(test::misuse_of([&] { DeviceMemory(job, 2, 10); }),
                HasSubstr("there is no device 2 among the 2"));
  });
}

}  // namespace
}  // namespace paceline::job
