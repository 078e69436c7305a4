#include "paceline/core/observe/model_recorder.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "paceline/core/base/result.h"
#include "paceline/core/schedule/replay/model_file.h"
#include "tests/support/temporary_folder.h"

namespace paceline::observe {
namespace {

using schedule::Model;
using schedule::ObservedStep;

const std::vector<schedule::Tensor> kTensors = {{.bytes = 4, .rows = 1, .name = "first"},
                                                {.bytes = 8, .rows = 2, .name = "second"}};

ObservedStep step_of(double seconds) {
  return {.arrived = {1, 0}, .arrived_at = {seconds, seconds + 1}, .update = 0.5};
}

TEST(ModelRecorder, WritesTheQuickestOfTheStepsAfterTheFirst) {
  const test::TemporaryFolder folder;
  const std::string file = folder.file("m.json");
  ModelRecorder recorder(file, kTensors);
  recorder.add(step_of(1), 3);
  for (int i = 0; i < ModelRecorder::kSteps; ++i) {
    EXPECT_FALSE(std::filesystem::exists(file));
    recorder.add(step_of(i == 7 ? 4 : 5 + i), 32);
  }
  const Model model = schedule::read_model(file);
  EXPECT_EQ(ready_times(model), (std::vector<double>{4, 5}));
  EXPECT_EQ(model.update(), 0.5);
  EXPECT_EQ(model.batch, 32);
  for (std::size_t i = 0; i < kTensors.size(); ++i) {
    EXPECT_EQ(model.tensors[i].name, kTensors[i].name);
    EXPECT_EQ(model.tensors[i].bytes, kTensors[i].bytes);
    EXPECT_EQ(model.tensors[i].rows, kTensors[i].rows);
  }
  recorder.add(step_of(2), 32);
  EXPECT_EQ(schedule::read_model(file), model);
}

TEST(ModelRecorder, OfAShortTrainingWritesWhatThereIsAtItsEnd) {
  const test::TemporaryFolder folder;
  for (const int steps : {0, 1, 2, 5}) {
    const std::string file = folder.file(std::to_string(steps));
    {
      ModelRecorder recorder(file, kTensors);
      for (int i = 0; i < steps; ++i) recorder.add(step_of(3 + i), 1);
      recorder.add({}, 1);  // of a rank without a batch
      EXPECT_FALSE(std::filesystem::exists(file));
    }
    ASSERT_EQ(std::filesystem::exists(file), steps > 0);
    if (steps == 0) continue;
    EXPECT_EQ(ready_times(schedule::read_model(file))[0], steps == 1 ? 3 : 4);
  }
}

TEST(ModelRecorder, AFileThatCannotBeWrittenIsToldBeforeTheFirstStep) {
  EXPECT_THROW(ModelRecorder("/no/such/folder/m.json", kTensors), Error);
}

}  // namespace
}  // namespace paceline::observe
