#include "paceline/core/collective/group/device_carrier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace paceline::collective {
namespace {

using membership::DeviceTransport;
using ::testing::HasSubstr;

constexpr auto kAuto = DeviceTransport::automatic, kDirect = DeviceTransport::direct,
               kNccl = DeviceTransport::nccl, kStaged = DeviceTransport::staged;
constexpr auto kFast = Determinism::fast, kExact = Determinism::reproducible;

// One word for each rank: the device on which its buffers lie ("a"); "a-": without NCCL there; "(a)":
// it has the device, and its buffers lie on the host; "-": it has none; "?": it was not asked.
MemberDevice member_of(const std::string& word) {
  if (word == "?") return {};
  if (word == "-") return {.is_on_device = false};
  if (word.front() == '(') return {false, {word.substr(1, word.size() - 2), true}};
  return {true, {word.substr(0, 1), word.size() == 1}};
}

struct CarrierRow {
  const char* what;
  std::vector<std::string> ranks;
  bool shares_memory;  // all are on one host
  Determinism determinism;
  DeviceTransport wanted;
  DeviceCarrier carrier;
};

Result<DeviceCarrier> carrier_of(const CarrierRow& row) {
  DeviceGroup group{
      .shares_memory = row.shares_memory, .determinism = row.determinism, .wanted = row.wanted};
  for (const std::string& word : row.ranks) group.members.push_back(member_of(word));
  return device_carrier(group);
}

TEST(DeviceCarriers, FollowFromDevicesHostsDeterminismAndWhatIsWanted) {
  constexpr auto direct = DeviceCarrier::direct, nccl = DeviceCarrier::nccl,
                 staged = DeviceCarrier::staged;
  for (const CarrierRow& row : {
           CarrierRow{"own devices, bits may change", {"a", "b"}, true, kFast, kAuto, nccl},
           CarrierRow{"on several hosts, too", {"a", "b", "c"}, false, kFast, kAuto, nccl},
           CarrierRow{"bits must stay", {"a", "b"}, true, kExact, kAuto, direct},
           CarrierRow{"on several hosts", {"a", "b"}, false, kExact, kAuto, staged},
           CarrierRow{"a shared device", {"a", "a"}, true, kFast, kAuto, direct},
           CarrierRow{"shared by some", {"a", "b", "a"}, false, kFast, kAuto, staged},
           CarrierRow{"no NCCL on a rank", {"a", "b-"}, true, kFast, kAuto, direct},
           CarrierRow{"the same on hosts", {"a", "b-"}, false, kFast, kAuto, staged},
           CarrierRow{"a rank without one", {"a", "-"}, true, kFast, kAuto, staged},
           CarrierRow{"memory of the host", {"a", "(b)"}, true, kFast, kAuto, staged},
           CarrierRow{"nobody was asked", {"?", "?"}, true, kFast, kAuto, direct},
           CarrierRow{"a rank alone", {"a"}, false, kFast, kAuto, staged},
           CarrierRow{"direct is wanted", {"a", "b"}, true, kFast, kDirect, direct},
           CarrierRow{"direct, unlike memory", {"a", "-"}, true, kFast, kDirect, staged},
           CarrierRow{"NCCL is wanted", {"a", "b"}, true, kFast, kNccl, nccl},
           CarrierRow{"and finds out itself", {"?", "?"}, false, kFast, kNccl, nccl},
           CarrierRow{"alone", {"a"}, false, kFast, kNccl, nccl},
           CarrierRow{"staged is wanted", {"a", "b"}, true, kFast, kStaged, staged},
           CarrierRow{"staged, reproducible", {"a", "b"}, true, kExact, kStaged, staged},
       }) {
    const auto carrier = carrier_of(row);
    ASSERT_TRUE(carrier) << row.what << ": " << carrier.error().what;
    EXPECT_EQ(static_cast<int>(carrier.value()), static_cast<int>(row.carrier)) << row.what;
  }
}

TEST(DeviceCarriers, RefuseWhatRanksCannotHaveWithTheRemedy) {
  struct Refusal {
    std::vector<std::string> ranks;
    DeviceTransport wanted;
    const char* what;
    std::vector<int> whom;
  };
  for (const Refusal& row :
       {Refusal{{"a", "b", "a"}, kNccl, "ranks 0 and 2 have the same CUDA device, a; NCCL", {0, 2}},
        Refusal{{"a", "-"}, kNccl, "rank 1 has no CUDA device, and others have; NCCL", {1}},
        Refusal{{"(a)", "b"}, kNccl, "or take --device-transport auto", {0}},
        Refusal{{"a", "b"}, kDirect, "do not share memory on one host; start it with auto", {}}}) {
    const auto carrier = carrier_of({"", row.ranks, false, kFast, row.wanted, {}});
    ASSERT_FALSE(carrier) << row.what;
    EXPECT_EQ(carrier.error().fault, Fault::misuse);
    EXPECT_THAT(carrier.error().what, HasSubstr(row.what));
    EXPECT_EQ(carrier.error().ranks, row.whom);
  }
}

}  // namespace
}  // namespace paceline::collective
