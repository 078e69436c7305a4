#include "paceline/torch/pipeline/measured/layer_watch.h"

#include <ATen/autocast_mode.h>
#include <c10/core/Allocator.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <algorithm>
#include <utility>

namespace paceline::pipeline {
namespace {

using torch::autograd::Node;
using torch::autograd::variable_list;
using Tensors = LayerWatch::Tensors;

class Mark final : public Node {
 public:
  Mark(LayerWatch& watch, int layer, torch::autograd::edge_list edges)
      : Node(std::move(edges)), watch_(watch), layer_(layer) {}
  std::string name() const override { return "paceline::LayerWatch"; }
  variable_list apply(variable_list&& gradients) override {
    watch_.mark(layer_);
    return std::move(gradients);
  }

 private:
  LayerWatch& watch_;
  const int layer_;
};

const void* memory_of(const at::Tensor& tensor) {
  return tensor.storage().unsafeGetStorageImpl();
}

// A graph that saves a tensor refers to the tensor, or to its memory.
std::size_t references_of(const at::Tensor& tensor) {
  return tensor.use_count() + tensor.storage().use_count();
}

// The tensors that refer to the memory because these are there.
std::size_t known_owners_of(const void* memory, const Tensors& tensors) {
  std::set<const void*> owners;
  for (const at::Tensor& one : tensors) {
    if (memory_of(one) != memory) continue;
    owners.insert(one.unsafeGetTensorImpl());
    if (one.is_view()) owners.insert(one._base().unsafeGetTensorImpl());
  }
  return owners.size();
}

bool shares_memory(const at::Tensor& tensor, const Tensors& others) {
  return std::ranges::any_of(
      others, [&](const at::Tensor& other) { return memory_of(other) == memory_of(tensor); });
}

Tensors quarter_of(const Tensors& inputs, std::int64_t samples) {
  const auto is_cut = [&](const at::Tensor& one) {
    return one.dim() > 0 && one.size(0) == samples;
  };
  const bool casts = at::autocast::is_autocast_enabled(at::kCPU);
  if (samples < 4 || casts || !std::ranges::all_of(inputs, is_cut)) return {};
  Tensors some;
  for (const at::Tensor& input : inputs)
    some.push_back(
        input.detach().narrow(0, 0, samples / 4).clone().set_requires_grad(input.requires_grad()));
  return some;
}

}  // namespace

LayerWatch::LayerWatch(int layers, int dropped, int kept)
    : dropped_(static_cast<std::size_t>(dropped)),
      passes_(static_cast<std::size_t>(dropped + kept)),
      layers_(static_cast<std::size_t>(layers)),
      marks_(static_cast<std::size_t>(layers)) {}

Tensors LayerWatch::run(int layer, const Tensors& inputs,
                        const std::function<Tensors(const Tensors& inputs)>& forward) {
  Layer& own = layers_[static_cast<std::size_t>(layer)];
  if (!at::GradMode::is_enabled() || own.forward.size() == passes_) return forward(inputs);
  if (layer == 0) {
    samples_ = inputs.front().dim() > 0 ? inputs.front().size(0) : 1;
    counted_.clear();
  }
  if (own.forward.size() + 1 == passes_) own.quarter = quarter_of(inputs, samples_);
  const Tensors taken = marked(layer, inputs);
  const Stopwatch watch;
  constexpr std::size_t kLooks = 2;  // the first pass may take memory for good
  Tensors outputs = own.forward.size() < kLooks ? looked_at(own, taken, forward) : forward(taken);
  own.forward.push_back(watch.seconds());
  return outputs;
}

// The outputs are no views, as layers may write to their inputs.
Tensors LayerWatch::marked(int layer, const Tensors& inputs) {
  const auto has_history = [](const at::Tensor& one) { return one.requires_grad(); };
  if (std::ranges::none_of(inputs, has_history)) return inputs;
  const auto node =
      std::shared_ptr<Mark>(new Mark(*this, layer, torch::autograd::collect_next_edges(inputs)),
                            torch::autograd::deleteNode);
  Tensors outputs;
  for (const at::Tensor& input : inputs) {
    outputs.push_back(has_history(input) ? input.detach() : input);
    torch::autograd::set_history(has_history(input) ? outputs.back() : at::Tensor(), node);
  }
  return outputs;
}

Tensors LayerWatch::looked_at(Layer& layer, const Tensors& inputs,
                              const std::function<Tensors(const Tensors& inputs)>& forward) {
  std::vector<std::size_t> before;
  for (const at::Tensor& input : inputs) before.push_back(references_of(input));
  const LiveMemory memory;
  Tensors outputs = forward(inputs);
  std::int64_t saved = memory.bytes();
  layer.bytes = {};
  std::set<const void*> seen;
  for (const at::Tensor& output : outputs) {
    layer.bytes.output_bytes += output.nbytes();
    if (shares_memory(output, inputs) || !seen.insert(memory_of(output)).second) continue;
    if (output.storage().use_count() > known_owners_of(memory_of(output), outputs))
      counted_.insert(memory_of(output));
    else saved -= static_cast<std::int64_t>(output.storage().nbytes());
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const bool is_kept = references_of(inputs[i]) > before[i] && !shares_memory(inputs[i], outputs);
    if (is_kept && counted_.insert(memory_of(inputs[i])).second)
      saved += static_cast<std::int64_t>(inputs[i].nbytes());
  }
  layer.bytes.saved_bytes = static_cast<std::size_t>(std::max(saved, std::int64_t{0}));
  return outputs;
}

void LayerWatch::add_forward(int layer, double seconds) {
  std::vector<double>& forward = layers_[static_cast<std::size_t>(layer)].forward;
  if (!forward.empty()) forward.back() += seconds;
}

void LayerWatch::begin_backward() {
  std::ranges::fill(marks_, std::nullopt);
  since_begin_.restart();
}

// The first layer that has no mark ends with the pass; those before it have no backward.
void LayerWatch::end_backward(int first, int last) {
  const double end = since_begin_.seconds();
  double begin = 0;
  for (int layer = last; layer >= first; --layer) {
    Layer& own = layers_[static_cast<std::size_t>(layer)];
    if (own.backward.size() == own.forward.size()) continue;  // it was not measured
    const double at = marks_[static_cast<std::size_t>(layer)].value_or(end);
    own.backward.push_back(at - begin);
    begin = at;
  }
}

bool LayerWatch::is_complete() const {
  return std::ranges::all_of(
      layers_, [this](const Layer& layer) { return layer.backward.size() == passes_; });
}

double LayerWatch::median_of(const std::vector<double>& seconds) const {
  if (seconds.empty()) return 0;
  const auto first = static_cast<std::ptrdiff_t>(std::min(dropped_, seconds.size() - 1));
  std::vector<double> kept(seconds.begin() + first, seconds.end());
  const auto middle = kept.begin() + static_cast<std::ptrdiff_t>(kept.size() / 2);
  std::ranges::nth_element(kept, middle);
  return *middle;
}

std::vector<MeasuredLayer> LayerWatch::measured() const {
  std::vector<MeasuredLayer> all;
  for (const Layer& layer : layers_) {
    all.push_back(layer.bytes);
    all.back().forward = median_of(layer.forward);
    all.back().backward = median_of(layer.backward);
  }
  return all;
}

class LiveMemory::Count final : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void*, std::int64_t size, std::size_t, std::size_t,
                         c10::Device device) override {
    if (device.is_cpu()) bytes_ += size;
    peak_ = std::max(peak_, bytes_);
  }
  bool memoryProfilingEnabled() const override { return true; }
  std::int64_t bytes() const { return bytes_; }
  std::int64_t peak() const { return peak_; }

 private:
  std::int64_t bytes_ = 0, peak_ = 0;
};

LiveMemory::LiveMemory()
    : count_(std::make_shared<Count>()), guard_(c10::DebugInfoKind::PROFILER_STATE, count_) {}

std::int64_t LiveMemory::bytes() const {
  return count_->bytes();
}

std::int64_t LiveMemory::peak() const {
  return count_->peak();
}

}  // namespace paceline::pipeline
