#include <fstream>

#include "paceline/torch/checkpointing/resuming.h"
#include "tests/support/failing_calls.h"
#include "tests/torch/checkpointing/small_run.h"

namespace paceline {
namespace {

std::string model_file(const std::string& directory, int step) {
  return directory + "/" + checkpoint::name_of_step(static_cast<std::uint64_t>(step)) +
         "/model-00001-of-00002.safetensors";
}

void damage(const std::string& file) {
  std::fstream bytes(file, std::ios::in | std::ios::out | std::ios::binary);
  bytes.seekp(static_cast<std::streamoff>(fs::file_size(file)) - 3);
  bytes.put('\x55');
}

TEST(ResumePoint, ADamagedCheckpointIsToldAndTheOneBeforeIsTaken) {
  const TemporaryFolder folder;
  const Training training{.directory = folder.file("run")};
  const std::string expected = training.in(folder.file("whole")).run(20);
  training.run(10);
  const std::string file = model_file(training.directory, 8);
  damage(file);
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(training.resumed().run(20), expected);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr(file), HasSubstr("step-00000004")));
}

// --- what cannot be read now ---------------------------------------------------------------------

// Steps 4 and 8 are saved; then something keeps the newer from being read, until it is mended.
struct Unreadable {
  const char* what;
  const char* reason;
  std::function<void(const std::string&step)> make, mend;
  std::function<void(Job&)> before_resume = [](Job&) {};
};

void without_root(Job&) {
  ASSERT_TRUE(test::give_up_root_in_this_thread());
}
std::function<void(const std::string&)> with_rights(const char* name, fs::perms rights) {
  return [=](const std::string& step) { fs::permissions(step + name, rights); };
}
void nothing(const std::string&) {}
// In this rank alone reads fail, as of a disk that has an error.
std::function<void(Job&)> reads_fail_in(int rank) {
  return [rank](Job& job) {
    if (job.rank() == rank) {
      ASSERT_TRUE(test::fail_calls_of_this_thread(SYS_pread64, EIO));
    }
  };
}

constexpr fs::perms kFile = fs::perms{0644}, kFolder = fs::perms{0755};

TEST(ResumePoint, ACheckpointThatCannotBeReadNowStopsAllRanksAndIsThereWhenItCanBeRead) {
  const std::vector<Unreadable> all = {
      {"the manifest", "Permission denied", with_rights("/manifest.json", fs::perms::none),
       with_rights("/manifest.json", kFile), without_root},
      {"a file of tensors", "Permission denied",
       with_rights("/model-00002-of-00002.safetensors", fs::perms::none),
       with_rights("/model-00002-of-00002.safetensors", kFile), without_root},
      {"the folder", "Permission denied", with_rights("", fs::perms::none),
       with_rights("", kFolder), without_root},
      {"something that is no file", "no ordinary file",
       [](const std::string& step) {
         fs::rename(step + "/manifest.json", step + "/elsewhere");
         fs::create_directory(step + "/manifest.json");
       },
       [](const std::string& step) {
         fs::remove(step + "/manifest.json");
         fs::rename(step + "/elsewhere", step + "/manifest.json");
       }},
      {"bytes on rank 0", "Input/output error", nothing, nothing, reads_fail_in(0)},
      {"bytes on rank 1", "Input/output error", nothing, nothing, reads_fail_in(1)},
      {"a link to the folder", "no directory",
       [](const std::string& step) {
         fs::rename(step, step + "-elsewhere");
         fs::create_directory_symlink(step + "-elsewhere", step);
       },
       [](const std::string& step) {
         fs::remove(step);
         fs::rename(step + "-elsewhere", step);
       }},
  };
  const TemporaryFolder folder;
  fs::permissions(folder.path(), kFolder);
  const std::string expected = Training{.directory = folder.file("whole")}.run(10);
  Training{.directory = folder.file("saved")}.run(9);
  for (const Unreadable& one : all) {
    SCOPED_TRACE(one.what);
    Training training{.directory = folder.file("run"), .resume = true};
    fs::copy(folder.file("saved"), training.directory, fs::copy_options::recursive);
    const std::string step = training.directory + "/step-00000008";
    one.make(step);
    const auto before = names_in(training.directory);
    training.before_resume = one.before_resume;
    EXPECT_THAT(failure_of([&] { training.run(10); }),
                AllOf(HasSubstr("step-00000008"), HasSubstr(one.reason)));
    EXPECT_EQ(names_in(training.directory), before);
    one.mend(step);
    EXPECT_EQ(Training({.directory = training.directory, .resume = true}).run(10), expected);
    fs::remove_all(training.directory);
  }
}

// --- nothing is whole ----------------------------------------------------------------------------

TEST(ResumePoint, WhereNoCheckpointIsWholeNothingBeginsAtStepZeroOfItself) {
  const TemporaryFolder folder;
  const Training training{.directory = folder.file("run")};
  training.run(9);
  for (const int step : {4, 8}) damage(model_file(training.directory, step));
  const auto before = names_in(training.directory);
  EXPECT_THAT(failure_of([&] { training.resumed().run(20); }),
              AllOf(HasSubstr("none of the 2 checkpoints"), HasSubstr("step-00000008"),
                    HasSubstr("Resume::anew"), HasSubstr("--resume=new")));
  EXPECT_EQ(names_in(training.directory), before);
}

// A whole checkpoint stays until newer ones are known to be whole too.
TEST(ResumePoint, DamagedCheckpointsDoNotCountAmongTheNewestThatStay) {
  const TemporaryFolder folder;
  Training training{.directory = folder.file("run"), .keep_last = 3};
  training.run(13);
  for (const int step : {8, 12}) damage(model_file(training.directory, step));
  training.keep_last = 2;
  training.every = 1;
  training.resumed().run(5);
  EXPECT_EQ(names_in(training.directory),
            (std::vector<std::string>{".lock", "step-00000004", "step-00000005", "step-00000008",
                                      "step-00000012"}));
  training.resumed().run(9);
  EXPECT_EQ(names_in(training.directory),
            (std::vector<std::string>{".lock", "step-00000008", "step-00000009", "step-00000012"}));
}

}  // namespace
}  // namespace paceline
