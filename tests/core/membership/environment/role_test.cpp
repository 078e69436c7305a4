// Also covers paceline/core/membership/environment/variables.cpp.
#include "paceline/core/membership/environment/role.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "paceline/core/membership/environment/variables.h"

namespace paceline::membership {
namespace {

using testing::HasSubstr;
using Named = std::map<std::string, std::string>;

// The role as the whole environment is read, without a store where the secret is missing.
Result<Environment> role_in(const Named& values) {
  const Variables variables = [&](const char* name) -> const char* {
    const auto found = values.find(name);
    return found == values.end() ? nullptr : found->second.c_str();
  };
  Environment environment;
  if (auto read = read_role(variables, recognise(variables), environment); !read)
    return read.error();
  return environment;
}

TEST(Role, AServerHasANumberAfterTheRanksAndNoRank) {
  auto e = role_in({{"PACELINE_ROLE", "server"},
                    {"PACELINE_WORLD_SIZE", "4"},
                    {"PACELINE_SERVERS", "2"},
                    {"PACELINE_SERVER_INDEX", "1"},
                    {"PACELINE_GENERATION", "3"}});
  ASSERT_TRUE(e);
  EXPECT_TRUE(e->is_server());
  EXPECT_EQ(e->rank, -1);
  EXPECT_EQ(e->member(), 5);
  EXPECT_EQ(e->members(), 6);
  EXPECT_EQ(e->generation, 3u);
}

TEST(Role, AWorkerKnowsHowManyServersThereAre) {
  auto e = role_in({{"PACELINE_ROLE", "worker"},
                    {"PACELINE_RANK", "0"},
                    {"PACELINE_WORLD_SIZE", "4"},
                    {"PACELINE_SERVERS", "2"}});
  ASSERT_TRUE(e);
  EXPECT_FALSE(e->is_server());
  EXPECT_EQ(e->servers, 2);
  EXPECT_EQ(role_in({})->servers, 0);
}

TEST(Role, VariablesThatMakeNoSenseAreNamedWithTheRemedy) {
  const Named server = {{"PACELINE_ROLE", "server"},
                        {"PACELINE_WORLD_SIZE", "4"},
                        {"PACELINE_SERVERS", "2"},
                        {"PACELINE_SERVER_INDEX", "1"}};
  for (const char* name : {"PACELINE_WORLD_SIZE", "PACELINE_SERVERS", "PACELINE_SERVER_INDEX"}) {
    Named less = server;
    less.erase(name);
    EXPECT_THAT(role_in(less).error().what, testing::AllOf(HasSubstr(std::string(name) + " is not"),
                                                           HasSubstr("paceline run --servers")));
  }
  Named beyond = server;
  beyond["PACELINE_SERVER_INDEX"] = "2";
  EXPECT_THAT(role_in(beyond).error().what, HasSubstr("a whole number from 0 to 1"));
  EXPECT_THAT(role_in({{"PACELINE_ROLE", "chief"}}).error().what,
              HasSubstr("PACELINE_ROLE=chief makes no sense: it must be worker or server"));
}

TEST(Role, AServerInThePlaceOfAnotherOneIsNumberedAfterAll) {
  Named late = {{"PACELINE_ROLE", "server"},
                {"PACELINE_WORLD_SIZE", "4"},
                {"PACELINE_SERVERS", "3"},
                {"PACELINE_REPLICAS", "2"},
                {"PACELINE_SERVER_INDEX", "4"}};
  const auto e = role_in(late).value();
  EXPECT_TRUE(e.is_server() && e.is_late());
  EXPECT_EQ(e.member(), 8);
  EXPECT_EQ(e.members(), 7) << "those of the beginning";
  EXPECT_EQ(e.replicas, 2);
  late["PACELINE_SERVER_INDEX"] = "2";
  EXPECT_FALSE(role_in(late).value().is_late());
  late["PACELINE_SERVER_INDEX"] = "3";
  late["PACELINE_REPLICAS"] = "1";
  EXPECT_FALSE(role_in(late)) << "without replicas nobody takes another one's place";
}

TEST(Role, ReplicasAreNoMoreThanServers) {
  EXPECT_EQ(role_in({}).value().replicas, 1);
  Named worker = {{"PACELINE_RANK", "0"}, {"PACELINE_WORLD_SIZE", "4"}, {"PACELINE_SERVERS", "2"}};
  worker["PACELINE_REPLICAS"] = "2";
  EXPECT_EQ(role_in(worker).value().replicas, 2);
  worker["PACELINE_REPLICAS"] = "3";
  EXPECT_THAT(role_in(worker).error().what, HasSubstr("it must be at most PACELINE_SERVERS=2"));
  worker["PACELINE_REPLICAS"] = "4";
  EXPECT_THAT(role_in(worker).error().what, HasSubstr("from 1 to 3"));
}

TEST(Role, OtherLaunchersStartNoServers) {
  auto refused = role_in(
      {{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "2"}, {"PACELINE_SERVERS", "2"}});
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().what,
              HasSubstr("Open MPI's mpirun started this process, and starts no servers: start the "
                        "job by `paceline run --servers 2`, or unset PACELINE_SERVERS"));
  EXPECT_THAT(role_in({{"PACELINE_SERVERS", "1"}}).error().what, HasSubstr("nobody started"));
}

}  // namespace
}  // namespace paceline::membership
