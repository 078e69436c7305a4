#include "paceline/torch/pipeline/layer_recorder.h"

#include <cstdlib>
#include <utility>

#include "paceline/core/plan/plan.h"
#include "paceline/core/schedule/schedule.h"
#include "tests/support/temporary_folder.h"
#include "tests/torch/pipeline/small_pipelines.h"

namespace paceline {
namespace {

using namespace pipeline_tests;

std::string recorded_digest(const std::string& file, int steps, PipelineOptions options) {
  if (!file.empty()) ::setenv("PACELINE_RECORD", file.c_str(), 1);
  Job job = init();
  ::unsetenv("PACELINE_RECORD");
  DeviceMesh mesh(job, "pp=1");
  Pipeline pipeline(mlp(), mesh, std::move(options));
  for (int step = 0; step < steps; ++step) {
    const Batch batch = batch_of(step, 0, 16, at::kFloat);
    pipeline.step(batch.data, batch.target);
  }
  return pipeline.parameters_sha256();
}

// The short run is written down at its end, the long one before.
TEST(LayerRecorder, APipelineOnOneProcessHasAllLayersInItsProfileAndTheBitsOfOneWithout) {
  for (const auto& [steps, schedule] : {std::pair(3, "gpipe"), std::pair(24, "1f1b")}) {
    const test::TemporaryFolder folder;
    const std::string file = folder.file("model.json");
    PipelineOptions options = options_of(schedule, 4);
    options.recompute = "every:2";
    EXPECT_EQ(recorded_digest(file, steps, options), recorded_digest("", steps, options));
    const schedule::Model model = schedule::read_model(file);
    EXPECT_EQ(model.batch, 4) << "16 samples in four micro-batches";
    EXPECT_EQ(model.size(), 10);
    ASSERT_EQ(model.layers.size(), 8u);
    const Layers layers = mlp();
    for (int i = 0; i < layers.size(); ++i)
      EXPECT_EQ(model.layers[static_cast<std::size_t>(i)].name, layers.name(i));
    EXPECT_EQ(model.layers[1].parameters, 26u * 17);
    EXPECT_EQ(model.layers[1].weight_bytes, 4u * 26 * 17);
    EXPECT_EQ(model.layers[1].output_bytes, 4u * 4 * 17);
    EXPECT_EQ(model.layers[1].saved_bytes, 4u * 4 * 25);
    EXPECT_EQ(model.layers[2].parameters, 0u);
    EXPECT_TRUE(plan::profiled_layers(model, file).has_value());
    double starts = 0;
    for (const schedule::Layer& layer : model.layers) {
      starts += layer.forward_start;
      EXPECT_LE(layer.forward_start, layer.forward);
      EXPECT_LE(layer.backward_start, layer.backward);
    }
    // Layers of four samples are nearly all start; that of one may be missed beside other work.
    EXPECT_EQ(starts > 0, steps == 24);
  }
}

// A pipeline that clips steps its optimizer itself.
TEST(LayerRecorder, TheUpdateOfAPipelineThatClipsIsInTheProfileByTheBytesOfEachTensor) {
  const test::TemporaryFolder folder;
  const std::string file = folder.file("model.json");
  PipelineOptions options = options_of("1f1b", 2);
  options.training.max_grad_norm = 0.5;
  recorded_digest(file, 24, options);
  const schedule::Model model = schedule::read_model(file);
  const schedule::Tensor& first = model.tensors.front();
  EXPECT_GT(first.update, 0);
  for (const schedule::Tensor& tensor : model.tensors)
    EXPECT_NEAR(tensor.update / first.update,
                static_cast<double>(tensor.bytes) / static_cast<double>(first.bytes), 1e-9);
}

}  // namespace
}  // namespace paceline
