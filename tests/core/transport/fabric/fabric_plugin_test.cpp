#include "paceline/core/transport/fabric/fabric_plugin.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/temporary_folder.h"

namespace paceline::transport {
namespace {

namespace fs = std::filesystem;

class RdmaDevices : public ::testing::Test {
 protected:
  void write(const std::string& path, const std::string& text) const {
    const fs::path file = root() / path;
    fs::create_directories(file.parent_path());
    std::ofstream(file) << text << '\n';
  }
  void add(const std::string& verbs, const std::string& name, const std::string& state) const {
    write("sys/class/infiniband_verbs/" + verbs + "/ibdev", name);
    write("sys/class/infiniband/" + name + "/ports/1/state", state);
    write("dev/infiniband/" + verbs, "");
  }
  fs::path root() const { return folder_.path(); }

  test::TemporaryFolder folder_;
};

TEST_F(RdmaDevices, AreNoneWhereTheKernelKnowsNone) {
  EXPECT_TRUE(rdma_devices(root()).empty());
  write("sys/class/infiniband_verbs/abi_version", "6");
  EXPECT_TRUE(rdma_devices(root()).empty());
}

TEST_F(RdmaDevices, AreThoseWithAnActivePort) {
  add("uverbs0", "mlx5_1", "4: ACTIVE");
  add("uverbs1", "mlx5_0", "4: ACTIVE");
  add("uverbs2", "mlx5_2", "1: DOWN");
  EXPECT_EQ(rdma_devices(root()), (std::vector<std::string>{"mlx5_0", "mlx5_1"}));
  write("sys/class/infiniband/mlx5_2/ports/2/state", "4: ACTIVE");
  EXPECT_EQ(rdma_devices(root()).size(), 3U);
}

// A container may see the host's devices and have none.
TEST_F(RdmaDevices, ThatCannotBeOpenedDoNotCount) {
  add("uverbs0", "mlx5_0", "4: ACTIVE");
  fs::remove(root() / "dev/infiniband/uverbs0");
  EXPECT_TRUE(rdma_devices(root()).empty());
}

}  // namespace
}  // namespace paceline::transport
