#include "paceline/app/launch/process/visible_devices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::launch {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string refusal_of(std::string_view text) {
  const auto devices = parse_devices(text);
  EXPECT_FALSE(devices) << text;
  return devices ? "" : devices.error().what;
}

TEST(VisibleDevices, AreNumbersOrUuidsInTheirOrder) {
  EXPECT_THAT(parse_devices("1,0").value(), ElementsAre("1", "0"));
  EXPECT_THAT(parse_devices("7").value(), ElementsAre("7"));
  EXPECT_THAT(parse_devices("GPU-8932f937-d72c, MIG-GPU-46ab/1/0").value(),
              ElementsAre("GPU-8932f937-d72c", "MIG-GPU-46ab/1/0"));
}

TEST(VisibleDevices, RefuseWhatNamesNoneOrOneTwice) {
  for (const char* wrong : {"", "x", "0,", ",0", "0,,1", "-1", "0-3", "0;1", "1.5", "GPU-", "gpu-1",
                            "GPU-1$(x)", "cuda:0"}) {
    EXPECT_THAT(refusal_of(wrong), HasSubstr("\" names no device; give numbers, as in 0,1"))
        << wrong;
  }
  EXPECT_THAT(refusal_of("0,1,0"), HasSubstr("--devices: 0 is named twice"));
  EXPECT_THAT(refusal_of("1,01"), HasSubstr("1 is named twice"));
  EXPECT_THAT(refusal_of("GPU-a,GPU-a"), HasSubstr("--ranks-per-device N"));
}

TEST(VisibleDevices, CountAmongThoseThatAreShownAlready) {
  EXPECT_EQ(visible_devices({"2", "0"}, {"HOME=/root"}).value(), "2,0");
  const Environment shown = {"CUDA_VISIBLE_DEVICES=5,GPU-abc, 7"};
  EXPECT_EQ(visible_devices({"2", "0"}, shown).value(), "7,5");
  EXPECT_EQ(visible_devices({"1"}, shown).value(), "GPU-abc");
  EXPECT_EQ(visible_devices({"GPU-ab"}, shown).value(), "GPU-abc") << "CUDA knows them by a part";
}

TEST(VisibleDevices, OutsideOfThoseThatAreShownAreRefused) {
  const auto refused = [](const std::string& device, const std::string& variable) {
    const auto value = visible_devices({device}, {"CUDA_VISIBLE_DEVICES=" + variable});
    EXPECT_FALSE(value) << device << " of " << variable;
    return value ? Failure{} : value.error();
  };
  EXPECT_EQ(refused("2", "4,5").fault, Fault::misuse);
  EXPECT_THAT(refused("2", "4,5").what,
              HasSubstr("2 is not among what CUDA_VISIBLE_DEVICES=4,5 shows here, 2 devices"));
  EXPECT_THAT(refused("GPU-x", "4").what, HasSubstr("unset CUDA_VISIBLE_DEVICES"));
  EXPECT_THAT(refused("0", "").what, HasSubstr("0 devices"));
  EXPECT_THAT(refused("1", "3,-1,4").what, HasSubstr("CUDA_VISIBLE_DEVICES=3 shows here, 1 device"))
      << "CUDA stops at -1";
  EXPECT_THAT(refused("0", "NoDevFiles").what, HasSubstr("0 devices")) << "Slurm says so";
}

}  // namespace
}  // namespace paceline::launch
