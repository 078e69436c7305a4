// The command `paceline checkpoint` on real directories, sound and damaged. Covers
// paceline/app/cli/commands/checkpoint.cpp, paceline/app/cli/shared/subcommand.cpp,
// paceline/app/cli/checkpoint/checkpoint_folder.cpp, paceline/app/cli/commands/checkpoint_list.cpp,
// paceline/app/cli/commands/checkpoint_show.cpp, paceline/app/cli/commands/checkpoint_diff.cpp and
// paceline/app/cli/commands/checkpoint_verify.cpp.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include <nlohmann/json.hpp>

#include "tests/core/checkpoint/small_checkpoints.h"
#include "tests/support/launched.h"
#include "tests/support/temporary_folder.h"

namespace paceline::test {
namespace {

using checkpoint::testing::SmallCheckpoint;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class CheckpointCommand : public ::testing::Test {
 protected:
  CheckpointCommand() {
    SystemDisk disk;
    for (const std::uint64_t step : {100, 200}) SmallCheckpoint(step).save(disk, run_).value();
  }
  Finished checkpoint(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {binary("paceline"), "checkpoint"});
    return run({.command = arguments}, Deadline::in(60s));
  }
  std::string file(const std::string& name) const {
    return checkpoint::CheckpointDirectory(disk_, run_).path_of(200) + "/" + name;
  }

  mutable SystemDisk disk_;
  TemporaryFolder folder_;
  const std::string run_ = folder_.path();
};

TEST_F(CheckpointCommand, ListsTheStepsWithTheirItems) {
  const auto listed = checkpoint({"ls", run_});
  EXPECT_EQ(listed.exit_code, 0) << listed.error;
  EXPECT_THAT(listed.output, HasSubstr("100"));
  EXPECT_THAT(listed.output, HasSubstr("model, mine"));
  const auto table = nlohmann::json::parse(checkpoint({"ls", run_, "--json", "-"}).output);
  ASSERT_EQ(table.size(), 2U);
  EXPECT_EQ(table[1]["step"], 200);
  EXPECT_EQ(table[1]["world_size"], 2);
}

TEST_F(CheckpointCommand, TellsInWhatTwoStepsDiffer) {
  const std::string first = run_ + "/step-00000100";
  const auto equal = checkpoint({"diff", first, first});
  EXPECT_EQ(equal.exit_code, 0) << equal.error;
  EXPECT_THAT(equal.output, HasSubstr("are equal"));
  const auto different = checkpoint({"diff", first, run_});
  EXPECT_EQ(different.exit_code, 1) << different.error;
  EXPECT_THAT(different.output, HasSubstr("model: fc.weight differs by at most"));
  const auto table = nlohmann::json::parse(checkpoint({"diff", first, run_, "--json", "-"}).output);
  EXPECT_EQ(table[0]["item"], "model");
  EXPECT_EQ(checkpoint({"diff", first}).exit_code, 2);
}

TEST_F(CheckpointCommand, ShowsTheNewestStepsTensorsAndValues) {
  const auto shown = checkpoint({"show", run_});
  EXPECT_EQ(shown.exit_code, 0) << shown.error;
  EXPECT_THAT(shown.output, HasSubstr("step 200 of job \"a job\""));
  EXPECT_THAT(shown.output, HasSubstr("f32[24, 2]"));
  EXPECT_THAT(shown.output, HasSubstr("bf16[6, 3], in 2 pieces"));
  EXPECT_THAT(shown.output, HasSubstr("u8[16] of rank 1"));
  EXPECT_THAT(shown.output, HasSubstr("0.25"));
  std::ifstream manifest(file("manifest.json"));
  EXPECT_EQ(checkpoint({"show", run_, "--json", "-"}).output,
            std::string(std::istreambuf_iterator<char>(manifest), {}));
}

TEST_F(CheckpointCommand, VerifyEndsWithOneAndNamesFileAndTensorsOfADamage) {
  const auto sound = checkpoint({"verify", run_});
  EXPECT_EQ(sound.exit_code, 0) << sound.output;
  {
    std::fstream stream(file("model-00002-of-00002.safetensors"),
                        std::ios::in | std::ios::out | std::ios::binary);
    stream.seekg(-1, std::ios::end);
    const char flipped = static_cast<char>(stream.get() ^ 1);
    stream.seekp(-1, std::ios::end);
    stream.put(flipped);
  }
  const auto damaged = checkpoint({"verify", run_});
  EXPECT_EQ(damaged.exit_code, 1) << damaged.output;
  EXPECT_THAT(damaged.output, HasSubstr("step-00000100: "));
  EXPECT_THAT(damaged.output, HasSubstr("damaged: model-00002-of-00002.safetensors"));
  EXPECT_THAT(damaged.output, HasSubstr("random@1"));
  const auto table = nlohmann::json::parse(checkpoint({"verify", run_, "--json", "-"}).output);
  EXPECT_THAT(table[0]["damages"], IsEmpty());
  EXPECT_EQ(table[1]["damages"][0]["file"], "model-00002-of-00002.safetensors");
  std::filesystem::remove(file("manifest.sha256"));
  EXPECT_EQ(checkpoint({"verify", file("")}).exit_code, 1);
  EXPECT_EQ(checkpoint({"ls", run_}).exit_code, 1);
  EXPECT_EQ(checkpoint({"show", run_}).exit_code, 1);
}

TEST_F(CheckpointCommand, WrongUsesEndWithTwoAndTheRemedy) {
  for (const std::vector<std::string>& wrong :
       std::vector<std::vector<std::string>>{{},
                                             {"lss", run_},
                                             {"ls"},
                                             {"ls", folder_.file("none")},
                                             {"verify", run_, "--jsn", "-"}}) {
    const auto refused = checkpoint(wrong);
    EXPECT_EQ(refused.exit_code, 2) << refused.error;
    EXPECT_THAT(refused.error, HasSubstr("paceline checkpoint"));
  }
  const auto help = checkpoint({"--help"});
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_THAT(help.output, HasSubstr("verify"));
}

}  // namespace
}  // namespace paceline::test
