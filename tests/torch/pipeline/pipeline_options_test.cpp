// A pipeline without a flush refuses by name what does not go with it, on all ranks.
#include "paceline/torch/norm/norm.h"
#include "tests/torch/pipeline/asynchronous_trainings.h"

namespace paceline {
namespace {

using namespace pipeline_tests;

// A layer of a class that derives from torch::nn::Module alone.
struct PlainImpl : nn::Module {
  PlainImpl() { linear = register_module("linear", nn::Linear(7, 3)); }
  at::Tensor forward(const at::Tensor& x) { return linear(x); }
  nn::Linear linear{nullptr};
};
TORCH_MODULE(Plain);
struct DerivedImpl : nn::LinearImpl {
  DerivedImpl() : nn::LinearImpl(7, 3) {}
};
TORCH_MODULE(Derived);

std::string refusal_of(const std::function<void(PipelineOptions&)>& change,
                       const std::function<void(Layers&)>& add = {}, int ranks = 3) {
  std::vector<std::string> texts(static_cast<std::size_t>(ranks));
  run_alone(ranks, [&](Job& job) {
    DeviceMesh mesh(job, "pp=" + std::to_string(ranks));
    PipelineOptions options = endless("pipedream", 1, plain(0.1));
    if (change) change(options);
    Layers layers(5);
    layers.add("in", [] { return nn::Linear(25, 7); });
    layers.add("relu", [] { return nn::ReLU(); });
    if (add) add(layers);
    else layers.add("head", [] { return nn::Linear(7, 3); });
    texts[static_cast<std::size_t>(job.rank())] =
        misuse_of([&] { Pipeline pipeline(layers, mesh, options); });
  });
  for (const std::string& text : texts) EXPECT_EQ(text, texts[0]);  // all ranks say it
  return texts[0];
}

TEST(PipeDream, RefusesByNameWhatDoesNotGo) {
  EXPECT_THAT(
      refusal_of([](auto& o) { o.training.max_grad_norm = 0.5; }),
      AllOf(HasSubstr("\"pipedream\""), HasSubstr("max_grad_norm 0.5"), HasSubstr("leave it 0")));
  EXPECT_THAT(refusal_of([](auto& o) { o.training.precision = "o1:dtype=fp16"; }),
              AllOf(HasSubstr("fp16"), HasSubstr("bf16")));
  EXPECT_THAT(refusal_of([](auto& o) { o.training.precision = "o2"; }),
              AllOf(HasSubstr("\"o2\""), HasSubstr("\"o1\"")));
  EXPECT_THAT(refusal_of([](auto& o) { o.training.zero_stage = 1; }),
              AllOf(HasSubstr("\"pipedream\""), HasSubstr("zero_stage 1")));
  EXPECT_THAT(refusal_of([](auto& o) { o.training.non_finite = "skip"; }),
              HasSubstr("non_finite \"skip\""));
  EXPECT_THAT(refusal_of([](auto& o) { o.micro_batches = 4; }),
              AllOf(HasSubstr("micro_batches 4"), HasSubstr("pipedream_2bw")));
  EXPECT_THAT(refusal_of([](auto& o) { o.schedule = "pipedream_2bw"; }),
              AllOf(HasSubstr("at least 2 micro-batches"), HasSubstr("it has 1")));
  EXPECT_THAT(refusal_of([](auto& o) {
                o.optimizer = {};
                o.training.optimizer = [](const at::Tensor& one) {
                  return std::make_unique<torch::optim::SGD>(Tensors{one}, 0.1);
                };
              }),
              AllOf(HasSubstr("training.optimizer"), HasSubstr("PipelineOptions::optimizer")));
  EXPECT_THAT(refusal_of({},
                         [](Layers& layers) {
                           layers.add("second", [] { return nn::Linear(7, 25); }).add("head", [] {
                             return nn::Linear(25, 7);
                           });
                           layers.tie("in.weight", "head.weight");
                         }),
              AllOf(HasSubstr("tied parameters"), HasSubstr("1f1b")));
}

TEST(PipeDream, RefusesLayersOnAllRanks) {
  EXPECT_THAT(
      refusal_of({}, [](Layers& layers) { layers.add("plain", [] { return Plain(); }); }),
      AllOf(HasSubstr("'plain'"), HasSubstr("PlainImpl"), HasSubstr("torch::nn::Cloneable")));
  EXPECT_THAT(
      refusal_of({}, [](Layers& layers) { layers.add("derived", [] { return Derived(); }); }),
      AllOf(HasSubstr("'derived'"), HasSubstr("DerivedImpl"), HasSubstr("another class")));
  EXPECT_THAT(
      refusal_of({}, [](Layers& layers) { layers.add("norm", [] { return SyncBatchNorm(7); }); }),
      AllOf(HasSubstr("SyncBatchNorm"), HasSubstr("'norm'"), HasSubstr("BatchNorm")));
}

TEST(PipeDream, AFailureOnOneStageEndsAllOfThem) {
  PipelineOptions options = endless("pipedream", 1, plain(0.1));
  int calls = 0;  // of the last rank
  options.loss = [&](const at::Tensor& y, const at::Tensor& t) {
    if (++calls > 4) throw std::runtime_error("no loss today");
    return mse(y, t);
  };
  run_alone(3, [&](Job& job) {
    DeviceMesh mesh(job, "pp=3");
    Pipeline pipeline(double_mlp(), mesh, options);
    std::string told;
    for (int t = 0; t < 50 && told.empty(); ++t) {
      const Batch batch = batch_of(t, 0, 6, at::kDouble);
      try {
        pipeline.step(batch.data, batch.target);
      } catch (const std::exception& error) {
        told = error.what();
      }
    }
    EXPECT_THAT(told, HasSubstr("no loss today"));
  });
}

TEST(PipeDream, AnEndWithBatchesInFlightSaysWhatIsMissing) {
  std::string told;
  try {
    run_alone(3, [&](Job& job) {
      DeviceMesh mesh(job, "pp=3");
      Pipeline pipeline(double_mlp(), mesh, endless("pipedream", 1, plain(0.1)));
      for (const Batch& batch : batches_of(5)) pipeline.step(batch.data, batch.target);
      if (job.rank() > 0) pipeline.finish();  // these wait for rank 0
    });
  } catch (const std::exception& error) {
    told = error.what();
  }
  EXPECT_THAT(told, AllOf(HasSubstr("in flight"), HasSubstr("finish()")));
}

}  // namespace
}  // namespace paceline
