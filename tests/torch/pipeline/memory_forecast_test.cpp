// Covers paceline/core/plan/rank_memory.h, by profiles that
// paceline/torch/pipeline/layer_recorder.h writes: both ends of the forecast, on trainings.
#include <cstdlib>

#include "paceline/core/plan/plan.h"
#include "paceline/core/schedule/schedule.h"
#include "paceline/torch/pipeline/measured/layer_watch.h"
#include "tests/support/temporary_folder.h"
#include "tests/torch/pipeline/small_pipelines.h"

namespace paceline {
namespace {

using namespace pipeline_tests;

constexpr int kSamples = 256, kWidth = 192, kBlocks = 8;

Layers tower() {
  Layers layers(7);
  for (int i = 0; i < kBlocks; ++i) {
    const std::string number = std::to_string(i);
    layers.add("linear" + number, [] { return nn::Linear(kWidth, kWidth); });
    layers.add("gelu" + number, [] { return nn::GELU(); });
  }
  layers.add("head", [] { return nn::Linear(kWidth, 8); });
  return layers;
}

PipelineOptions tower_options(const std::string& schedule, int micro_batches,
                              const std::string& recompute) {
  PipelineOptions options = options_of(schedule, micro_batches);
  options.recompute = recompute;
  return options;
}

// The most bytes of libtorch on each rank, from before the model is made.
std::vector<double> measured_peaks(const std::string& layout, int ranks, int steps,
                                   const PipelineOptions& options) {
  std::vector<double> peaks(static_cast<std::size_t>(ranks));
  run_ranks(ranks, [&](Job& job) {
    at::set_num_threads(1);
    const at::Tensor data = at::randn({kSamples, kWidth}), target = at::randn({kSamples, 8});
    const pipeline::LiveMemory memory;
    DeviceMesh mesh(job, layout);
    Pipeline pipeline(tower(), mesh, options);
    for (int step = 0; step < steps; ++step) {
      const bool is_first = mesh.rank("pp") == 0, is_last = mesh.rank("pp") + 1 == mesh.size("pp");
      pipeline.step(is_first ? data : at::Tensor(), is_last ? target : at::Tensor());
    }
    pipeline.finish();
    peaks[static_cast<std::size_t>(job.rank())] = static_cast<double>(memory.peak());
  });
  return peaks;
}

std::vector<plan::LayerCost> recorded_layers() {
  const test::TemporaryFolder folder;
  const std::string file = folder.file("model.json");
  ::setenv("PACELINE_RECORD", file.c_str(), 1);
  {
    Job job = init();
    ::unsetenv("PACELINE_RECORD");
    DeviceMesh mesh(job, "pp=1");
    Pipeline pipeline(tower(), mesh, tower_options("gpipe", 1, "none"));
    for (int step = 0; step < 3; ++step)
      pipeline.step(at::randn({kSamples, kWidth}), at::randn({kSamples, 8}));
  }
  auto layers = plan::profiled_layers(schedule::read_model(file), file);
  EXPECT_TRUE(layers.has_value());
  return *layers;
}

TEST(MemoryForecast, IsWithinFifteenPercentOfTheAllocatorsPeakOnEachRank) {
  const auto layers = recorded_layers();
  for (const char* schedule :
       {"sequential", "gpipe", "1f1b", "interleaved:chunks=2", "zero_bubble"})
    for (const int micro_batches : {2, 4})
      for (const char* recompute : {"none", "full"}) {
        plan::PlanQuestion question{
            .layers = layers, .profiled_batch = kSamples, .batch = kSamples, .ranks = 2};
        question.form = *plan::PipelineForm::parse(schedule);
        question.optimizer_slots = 2;
        question.micro_batches = micro_batches;
        question.partition = *plan::StagePartition::parse(
            question.form.chunks == 2 ? "0-3,4-7,8-11,12-16" : "0-7,8-16", 17);
        question.recompute = *plan::Recompute::parse(recompute);
        auto report = plan::plan_pipeline(question);
        ASSERT_TRUE(report.has_value());
        const plan::PipelinePlan& plan = report->pipelines.front();
        PipelineOptions options = tower_options(schedule, micro_batches, recompute);
        options.partition = plan.partition.text();
        const auto peaks = measured_peaks("pp=2", 2, 3, options);
        for (std::size_t rank = 0; rank < 2; ++rank)
          EXPECT_NEAR(plan.stages[rank].memory.total() / peaks[rank], 1, 0.15)
              << schedule << " m " << micro_batches << " recompute " << recompute << " rank "
              << rank << ", partition " << options.partition;
      }
}

}  // namespace
}  // namespace paceline
