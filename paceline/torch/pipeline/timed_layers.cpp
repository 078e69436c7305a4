#include "paceline/torch/pipeline/timed_layers.h"

#include <torch/torch.h>

#include <optional>
#include <utility>

#include "paceline/core/base/base.h"
#include "paceline/torch/pipeline/cut_shapes.h"
#include "paceline/torch/pipeline/recompute/pass_state.h"
#include "paceline/torch/pipeline/stage_module.h"
#include "paceline/torch/precision/precision.h"

namespace paceline::pipeline {
namespace {

constexpr int kDropped = 2, kKept = 5;  // passes

// A layer, as it was before, at the end.
class LentLayer {
 public:
  LentLayer(const Layers& layers, int layer) : stage_(layers, layer, layer) {
    for (const at::Tensor& buffer : stage_.buffers()) before_.emplace_back(buffer, buffer.clone());
  }
  LentLayer(const LentLayer&) = delete;
  LentLayer& operator=(const LentLayer&) = delete;
  ~LentLayer() {
    const at::NoGradGuard no_grad;
    for (auto& [buffer, value] : before_) buffer.copy_(value);
    stage_.zero_grad();
  }
  StageModule& operator*() { return stage_; }

 private:
  StageModule stage_;
  std::vector<std::pair<at::Tensor, at::Tensor>> before_;
};

// Under o2 in float32, as layers are before they are halved.
Tensors first_samples(const SampleBatch& sample, std::int64_t samples, bool is_halved) {
  Tensors data;
  for (const at::Tensor& one : sample.data) {
    if (one.size(0) < samples) {
      throw_misuse(c10::str("PipelineOptions::sample has ", one.size(0),
                            " samples, and layers are to be timed with ", samples,
                            ": set a batch as step() takes it"));
    }
    data.push_back(one.narrow(0, 0, samples));
    if (is_halved && crosses_back(one)) data.back() = data.back().to(at::kFloat);
  }
  return data;
}

// The inputs as leaves, where the layer before has parameters or may have them.
Tensors leaves_of(const Tensors& inputs, bool is_first) {
  Tensors leaves;
  for (const at::Tensor& input : inputs) {
    leaves.push_back(input.detach());
    if (!is_first && crosses_back(input)) leaves.back().set_requires_grad(true);
  }
  return leaves;
}

void run_backward(const Tensors& outputs) {
  Tensors roots, gradients;
  for (const at::Tensor& output : outputs) {
    if (!output.requires_grad()) continue;
    roots.push_back(output);
    gradients.push_back(at::ones_like(output));
  }
  if (!roots.empty()) torch::autograd::backward(roots, gradients);
}

}  // namespace

MeasuredLayer timed_passes(const std::function<Tensors(const Tensors&)>& forward,
                           const Tensors& inputs) {
  const GeneratorFrom generator(generator_state());
  const at::AutoGradMode recording(true);
  constexpr int kSmall = 20;  // passes are short: five of them fit into one pause of the machine
  LayerWatch watch(1, kDropped, kSmall);
  while (!watch.is_complete()) {
    Tensors leaves;
    for (const at::Tensor& input : inputs)
      leaves.push_back(input.detach().set_requires_grad(input.requires_grad()));
    const Tensors outputs = watch.run(0, leaves, forward);
    watch.begin_backward();
    run_backward(outputs);
    watch.end_backward(0, 0);
  }
  return watch.measured().front();
}

std::vector<MeasuredLayer> timed_layers(const Layers& layers, const PipelineOptions& options,
                                        std::int64_t samples) {
  if (options.sample.data.empty()) {
    throw_misuse(
        "a Pipeline that chooses its partition, micro-batches or recomputation by the times of its "
        "layers needs a batch for them: set PipelineOptions::sample, or a profile of `paceline "
        "profile` as partition");
  }
  const precision::PrecisionChoice precision =
      precision::parse_precision(options.training.precision).value();
  const GeneratorFrom generator(generator_state());
  const at::AutoGradMode recording(true);
  Tensors inputs = first_samples(options.sample, samples, precision.mode == precision::Mode::o2);
  std::vector<MeasuredLayer> measured;
  for (int layer = 0; layer < layers.size(); ++layer) {
    LentLayer lent(layers, layer);
    LayerWatch watch(1, kDropped, kKept);
    const bool is_last = layer + 1 == layers.size() && options.sample.target.defined();
    Tensors outputs;
    while (!watch.is_complete()) {
      std::optional<Autocast> scope;
      if (precision.mode == precision::Mode::o1) scope.emplace(precision.type);
      outputs = watch.run(0, leaves_of(inputs, layer == 0),
                          [&](const Tensors& given) { return (*lent).forward(given); });
      Tensors roots = outputs;
      if (is_last) {
        const Stopwatch of_loss;
        roots = {options.loss(outputs.front(), options.sample.target.narrow(0, 0, samples))};
        watch.add_forward(0, of_loss.seconds());
      }
      scope.reset();
      watch.begin_backward();
      run_backward(roots);
      watch.end_backward(0, 0);
    }
    measured.push_back(watch.measured().front());
    for (at::Tensor& output : outputs) output = output.detach();
    inputs = std::move(outputs);
  }
  return measured;
}

}  // namespace paceline::pipeline
