#include "paceline/core/membership/environment/environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <map>

#include "paceline/core/base/deadline.h"
#include "paceline/core/transport/socket/file_descriptor.h"

namespace paceline::membership {
namespace {

using Values = std::map<std::string, std::string>;

Result<Environment> read(const Values& values) {
  return read_environment([&](const char* name) -> const char* {
    const auto found = values.find(name);
    return found == values.end() ? nullptr : found->second.c_str();
  });
}

// A worker's whole environment; the secret lies in a descriptor.
class EnvironmentTest : public testing::Test {
 protected:
  EnvironmentTest() : secret(Secret::random()), fd(::memfd_create("secret", MFD_CLOEXEC)) {
    const std::string digits = secret.hexadecimal();
    EXPECT_EQ(::write(fd.get(), digits.data(), digits.size()), 64);
    ::lseek(fd.get(), 0, SEEK_SET);
    good = {{"PACELINE_RANK", "3"},
            {"PACELINE_WORLD_SIZE", "8"},
            {"PACELINE_LOCAL_RANK", "1"},
            {"PACELINE_LOCAL_WORLD_SIZE", "2"},
            {"PACELINE_NODE_RANK", "1"},
            {"PACELINE_JOB", "night"},
            {"PACELINE_GENERATION", "5"},
            {"PACELINE_STORE", "127.0.0.1:4000"},
            {"PACELINE_SECRET_FD", std::to_string(fd.get())},
            {"PACELINE_TRANSPORT", "tcp"},
            {"PACELINE_DETERMINISM", "fast"},
            {"PACELINE_OPERATION_TIMEOUT", "90s"}};
  }
  Values good;
  Secret secret;
  transport::FileDescriptor fd;
};

TEST(Environment, NamesTheFilesThatRank0ReadsAndWrites) {
  const auto e = read({{"PACELINE_PROFILE", "links.json"}, {"PACELINE_RECORD", "model.json"}});
  EXPECT_EQ(e.value().profile_file, "links.json");
  EXPECT_EQ(e.value().record_file, "model.json");
  EXPECT_EQ(read({}).value().record_file, "");
}

TEST(Environment, WithoutAnyItIsAWorldOfOne) {
  const auto e = read({}).value();
  EXPECT_EQ(e.world_size, 1);
  EXPECT_EQ(e.rank, 0);
  EXPECT_TRUE(e.store.empty());
  EXPECT_FALSE(e.secret);
  EXPECT_EQ(e.operation_timeout, std::chrono::minutes(10));
  EXPECT_TRUE(e.reproducible);
}

TEST_F(EnvironmentTest, TheDescriptorOfTheSecretIsTakenWhereItsFileIsHidden) {
  good["PACELINE_SECRET_FILE"] = "/proc/none/fd/6";
  ::lseek(fd.get(), 0, SEEK_END);  // a rank that shares the descriptor has read it
  EXPECT_EQ(read(good).value().secret->key(), secret.key());
  good["PACELINE_SECRET_FD"] = "999";
  const auto hidden = read(good);
  ASSERT_FALSE(hidden.has_value());
  EXPECT_THAT(hidden.error().what,
              ::testing::AllOf(::testing::HasSubstr("/proc/none/fd/6"),
                               ::testing::HasSubstr("descriptor 999"),
                               ::testing::HasSubstr("let it hand on descriptor 999")));
}

TEST_F(EnvironmentTest, EveryVariableIsRead) {
  const auto e = read(good).value();
  EXPECT_EQ(e.rank, 3);
  EXPECT_EQ(e.world_size, 8);
  EXPECT_EQ(e.local_rank, 1);
  EXPECT_EQ(e.local_world_size, 2);
  EXPECT_EQ(e.node_rank, 1);
  EXPECT_EQ(e.job, "night");
  EXPECT_EQ(e.generation, 5u);
  EXPECT_EQ(e.store, "127.0.0.1:4000");
  EXPECT_EQ(e.secret->key(), secret.key());
  EXPECT_EQ(e.transport, TransportChoice::tcp);
  EXPECT_FALSE(e.reproducible);
  EXPECT_EQ(e.operation_timeout, std::chrono::seconds(90));
}

TEST_F(EnvironmentTest, ABadValueIsRefusedWithVariableValueAndRemedy) {
  const std::vector<std::pair<std::string, std::vector<std::string>>> bad = {
      {"PACELINE_RANK", {"", "x", "-1", "8", "3.0", " 3", "3 ", "0x3", "99999999999999999999"}},
      {"PACELINE_LOG", {"", "loud", "2"}},
      {"PACELINE_WORLD_SIZE", {"", "0", "-2", "two", "2000000"}},
      {"PACELINE_LOCAL_RANK", {"", "-1", "a"}},
      {"PACELINE_LOCAL_WORLD_SIZE", {"", "0", "b"}},
      {"PACELINE_NODE_RANK", {"", "-1", "c"}},
      {"PACELINE_GENERATION", {"", "0", "-1", "first", "9223372036854775808"}},
      {"PACELINE_SECRET_FD", {"", "-1", "three", "1e3"}},
      {"PACELINE_TRANSPORT", {"", "ib", "TCP", "tcp "}},
      {"PACELINE_DETERMINISM", {"", "slow", "Fast"}},
      {"PACELINE_OPERATION_TIMEOUT",
       {"", "0", "-5s", "soon", "5 s", "nan", "inf", "1e300h", "10days", "300000y", "300000000h",
        "1e15ms"}},
  };
  for (const auto& [name, values] : bad) {
    for (const std::string& value : values) {
      Values all = good;
      all[name] = value;
      const auto e = read(all);
      ASSERT_FALSE(e) << name << "=" << value;
      EXPECT_EQ(e.error().fault, Fault::misuse);
      EXPECT_NE(e.error().what.find(name + "=" + value + " makes no sense: it must be"),
                std::string::npos)
          << e.error().what;
      EXPECT_NE(e.error().what.find("paceline run"), std::string::npos);
    }
  }
}

TEST_F(EnvironmentTest, NcclAddsInItsOwnOrderAndNeedsNoLauncherOfItsOwn) {
  good["PACELINE_TRANSPORT"] = "nccl";
  good.erase("PACELINE_DETERMINISM");
  const auto e = read(good).value();
  EXPECT_EQ(e.engine, "nccl");
  EXPECT_FALSE(e.reproducible);
  good["PACELINE_DETERMINISM"] = "reproducible";
  EXPECT_NE(read(good).error().what.find("PACELINE_TRANSPORT=nccl adds"), std::string::npos);
}

TEST_F(EnvironmentTest, AMissingVariableIsNamedWithTheRemedy) {
  for (const std::string name :
       {"PACELINE_RANK", "PACELINE_WORLD_SIZE", "PACELINE_STORE", "PACELINE_SECRET_FD"}) {
    Values all = good;
    all.erase(name);
    const auto e = read(all);
    ASSERT_FALSE(e) << name;
    EXPECT_EQ(e.error().fault, Fault::misuse);
    EXPECT_NE(e.error().what.find(name), std::string::npos) << e.error().what;
    EXPECT_NE(e.error().what.find("paceline run"), std::string::npos);
  }
}

TEST(Environment, AWorldOfOneNeedsNoStoreButSensibleChoices) {
  EXPECT_EQ(read({{"PACELINE_RANK", "0"}, {"PACELINE_WORLD_SIZE", "1"}}).value().world_size, 1);
  EXPECT_FALSE(read({{"PACELINE_TRANSPORT", "ib"}}));
  EXPECT_FALSE(read({{"PACELINE_RANK", "1"}, {"PACELINE_WORLD_SIZE", "1"}}));
}

TEST(Environment, DurationsHaveUnits) {
  using namespace std::chrono_literals;
  EXPECT_EQ(parse_duration("600"), 600s);
  EXPECT_EQ(parse_duration("1.5"), 1500ms);
  EXPECT_EQ(parse_duration("90s"), 90s);
  EXPECT_EQ(parse_duration("250ms"), 250ms);
  EXPECT_EQ(parse_duration("10min"), 10min);
  EXPECT_EQ(parse_duration("2h"), 2h);
  for (const char* text : {"", "s", "-1s", "1x", "1s ", "nan", "inf", "1e16ms", "1e14ms"})
    EXPECT_FALSE(parse_duration(text)) << text;
  // The longest one still fits into the clock's 64 bits of nanoseconds.
  EXPECT_FALSE(Deadline::in(parse_duration("270000h").value()).passed());
}

}  // namespace
}  // namespace paceline::membership
