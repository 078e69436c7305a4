#include "paceline/torch/checkpoint/resume_point.h"

#include "tests/torch/checkpoint/small_run.h"

namespace paceline {
namespace {

TEST(ResumePoint, ADamagedCheckpointIsToldAndTheOneBeforeIsTaken) {
  const TemporaryFolder folder;
  const Training training{.directory = folder.file("run")};
  const std::string expected = training.in(folder.file("whole")).run(20);
  training.run(10);
  const std::string file = training.directory + "/step-00000008/model-00001-of-00002.safetensors";
  {
    std::fstream bytes(file, std::ios::in | std::ios::out | std::ios::binary);
    bytes.seekp(static_cast<std::streamoff>(fs::file_size(file)) - 3);
    bytes.put('\x55');
  }
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(training.resumed().run(20), expected);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr(file), HasSubstr("step-00000004")));
}

}  // namespace
}  // namespace paceline
