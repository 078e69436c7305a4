#include "paceline/core/mesh/device_mesh.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/local_world.h"

namespace paceline {
namespace {

using mesh::Axis;
using ::testing::HasSubstr;

TEST(DeviceMesh, EachGroupAddsUpItsOwnRanks) {
  for (const char* text : {"dp=2,tp=2,pp=2", "dp=4,cp=2,ep=4", "tp=8", "dp=8,ep=2"}) {
    test::run_ranks(8, [text](Job& job) {
      DeviceMesh mesh(job, text);
      for (const char* axes : {"pp", "dp", "cp", "tp", "ep", "edp", "dp,cp", "pp,tp"}) {
        const auto group = mesh.layout().group(mesh::Axes::parse(axes).value(), job.rank());
        double sum = 0;
        for (const int rank : group) sum += rank;
        EXPECT_EQ(mesh.group(axes).all_reduce(static_cast<double>(job.rank())), sum)
            << text << ", " << axes;
        EXPECT_EQ(mesh.size(axes), static_cast<int>(group.size()));
        EXPECT_EQ(mesh.group(axes).world_rank(mesh.rank(axes)), job.rank());
      }
      EXPECT_EQ(mesh.rank("tp"), mesh.layout().coordinate(Axis::tp, job.rank()));
    });
  }
}

TEST(DeviceMesh, HasNoOtherGroupsAndSaysWhichItHas) {
  test::run_ranks(2, [](Job& job) {
    DeviceMesh mesh(job, "dp=2");
    for (const char* axes : {"dp,tp", "yy"}) {
      try {
        mesh.group(axes);
        ADD_FAILURE() << axes;
      } catch (const Error& error) {
        EXPECT_EQ(error.fault(), Fault::misuse);
        EXPECT_THAT(error.what(), HasSubstr("tp"));
      }
    }
    EXPECT_THROW(DeviceMesh(job, "dp=3"), Error) << "on all ranks";
  });
}

TEST(DeviceMesh, TensorsOverSeveralHostsAreAWarning) {
  const LocalWorldOptions two_hosts = {.ranks_per_host = 2};
  ::testing::internal::CaptureStderr();
  test::run_ranks(4, two_hosts, [](Job& job) { DeviceMesh mesh(job, "dp=2,tp=2"); });
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  ::testing::internal::CaptureStderr();
  test::run_ranks(4, two_hosts, [](Job& job) { DeviceMesh mesh(job, "tp=4"); });
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("ranks 0, 1, 2, 3 share tensors"));
}

}  // namespace
}  // namespace paceline
