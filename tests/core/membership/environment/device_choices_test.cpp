#include "paceline/core/membership/environment/device_choices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "paceline/core/membership/environment/configuration.h"

namespace paceline::membership {
namespace {

using ::testing::HasSubstr;

Variables among(const std::map<std::string, std::string>& values) {
  return [values](const char* name) -> const char* {
    const auto found = values.find(name);
    return found == values.end() ? nullptr : found->second.c_str();
  };
}

Result<Environment> chosen(const std::map<std::string, std::string>& values) {
  return read_environment(among(values));
}

TEST(DeviceChoices, LeaveTheTransportOfDevicesOpenUnlessItIsNamed) {
  EXPECT_EQ(chosen({}).value().device_transport, DeviceTransport::automatic);
  const auto staged = chosen({{"PACELINE_DEVICE_TRANSPORT", "staged"}}).value();
  EXPECT_EQ(staged.device_transport, DeviceTransport::staged);
  EXPECT_EQ(staged.engine, "");
  EXPECT_TRUE(staged.reproducible);
}

TEST(DeviceChoices, TakeNcclByEitherName) {
  for (const auto& variables : std::vector<std::map<std::string, std::string>>{
           {{"PACELINE_TRANSPORT", "nccl"}},
           {{"PACELINE_DEVICE_TRANSPORT", "nccl"}},
           {{"PACELINE_DEVICE_TRANSPORT", "auto"}, {"PACELINE_TRANSPORT", "nccl"}},
           {{"PACELINE_DEVICE_TRANSPORT", "nccl"}, {"PACELINE_TRANSPORT", "nccl"}}}) {
    const auto read = chosen(variables).value();
    EXPECT_EQ(read.device_transport, DeviceTransport::nccl);
    EXPECT_EQ(read.engine, "nccl");
    EXPECT_FALSE(read.reproducible);
  }
  const auto over_tcp =
      chosen({{"PACELINE_DEVICE_TRANSPORT", "nccl"}, {"PACELINE_TRANSPORT", "tcp"}}).value();
  EXPECT_EQ(over_tcp.transport, TransportChoice::tcp);
  EXPECT_EQ(over_tcp.engine, "nccl");
}

TEST(DeviceChoices, RefuseNcclAmongReproducibleSumsByTheVariableThatNamesIt) {
  EXPECT_THAT(
      chosen({{"PACELINE_DEVICE_TRANSPORT", "nccl"}, {"PACELINE_DETERMINISM", "reproducible"}})
          .error()
          .what,
      HasSubstr("PACELINE_DEVICE_TRANSPORT=nccl adds in the library's own order"));
}

TEST(DeviceChoices, RefuseTwoTransportsThatContradictEachOther) {
  for (const auto& [transport, of_devices] :
       {std::pair("nccl", "staged"), {"nccl", "direct"}, {"mpi", "nccl"}}) {
    const auto read =
        chosen({{"PACELINE_TRANSPORT", transport}, {"PACELINE_DEVICE_TRANSPORT", of_devices}});
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error().fault, Fault::misuse);
    EXPECT_THAT(read.error().what, HasSubstr(std::string("PACELINE_TRANSPORT=") + transport));
    EXPECT_THAT(read.error().what,
                HasSubstr(std::string("PACELINE_DEVICE_TRANSPORT=") + of_devices));
    EXPECT_THAT(read.error().what, HasSubstr("leave one out"));
  }
}

TEST(DeviceChoices, RefuseAWordThatNamesNone) {
  const auto read = chosen({{"PACELINE_DEVICE_TRANSPORT", "pigeon"}});
  EXPECT_THAT(
      read.error().what,
      HasSubstr("PACELINE_DEVICE_TRANSPORT=pigeon makes no sense: it must be auto, direct"));
}

TEST(DeviceChoices, OfTwoRanksThatDifferAreNamed) {
  Environment one, other;
  other.device_transport = DeviceTransport::staged;
  const auto difference = first_difference(configuration_of(one), 0, configuration_of(other), 1);
  ASSERT_TRUE(difference);
  EXPECT_EQ(difference->what,
            "the ranks differ in their device transport: rank 0 has auto, rank 1 has staged; set "
            "PACELINE_DEVICE_TRANSPORT (paceline run --device-transport) to the same on all ranks");
}

TEST(RanksPerDevice, AreANumberOrNotSaid) {
  EXPECT_EQ(ranks_per_device(among({})).value(), 0);
  EXPECT_EQ(ranks_per_device(among({{"PACELINE_RANKS_PER_DEVICE", "3"}})).value(), 3);
  for (const char* wrong : {"", "0", "-1", "two", "2.0"}) {
    EXPECT_THAT(ranks_per_device(among({{"PACELINE_RANKS_PER_DEVICE", wrong}})).error().what,
                HasSubstr("PACELINE_RANKS_PER_DEVICE="));
    EXPECT_FALSE(chosen({{"PACELINE_RANKS_PER_DEVICE", wrong}}))
        << "told when a process joins, not first when it asks for its device";
  }
}

}  // namespace
}  // namespace paceline::membership
