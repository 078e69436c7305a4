#include "paceline/torch/pipeline/layer_recorder.h"

#include <algorithm>
#include <exception>
#include <filesystem>
#include <utility>

#include "paceline/core/base/durable_file.h"
#include "paceline/core/observe/model_recorder.h"
#include "paceline/core/schedule/schedule.h"
#include "paceline/torch/pipeline/timed_layers.h"

namespace paceline::pipeline {

std::vector<schedule::Layer> unmeasured_layers(const std::vector<Chunk>& chunks) {
  std::vector<schedule::Layer> layers;
  for (const Chunk& chunk : chunks) {
    for (int layer = chunk.module->first(); layer <= chunk.module->last(); ++layer) {
      schedule::Layer& one = layers.emplace_back();
      one.name = chunk.module->name_of(layer);
      for (const at::Tensor& parameter : chunk.module->layer(layer).parameters()) {
        one.weight_bytes += parameter.nbytes();
        one.parameters += static_cast<std::size_t>(parameter.numel());
      }
    }
  }
  return layers;
}

namespace {

// The line through both, at no sample: start + share (whole - start) is `part`.
double start_of(double whole, double part, double share) {
  return std::clamp((part - share * whole) / (1 - share), 0.0, whole);
}

// Each tensor's share of the median is that of its bytes.
void spread_updates(std::vector<double> updates, std::vector<schedule::Tensor>& tensors) {
  if (updates.empty()) return;
  const auto middle = updates.begin() + static_cast<std::ptrdiff_t>(updates.size() / 2);
  std::ranges::nth_element(updates, middle);
  double bytes = 0;
  for (const schedule::Tensor& tensor : tensors) bytes += static_cast<double>(tensor.bytes);
  for (schedule::Tensor& tensor : tensors)
    tensor.update = *middle * static_cast<double>(tensor.bytes) / bytes;
}

}  // namespace

std::unique_ptr<LayerRecorder> LayerRecorder::wanted(DeviceMesh& mesh,
                                                     const std::vector<Chunk>& chunks) {
  const std::string& file = mesh.job().record_file();
  const bool has_parts = mesh.size("pp") > 1 || mesh.size("tp") > 1 || mesh.size("cp") > 1;
  if (file.empty() || mesh.job().rank() != 0 || has_parts) return nullptr;
  std::vector<std::shared_ptr<StageModule>> stages;
  if (mesh.world().size() == 1)
    for (const Chunk& chunk : chunks) stages.push_back(chunk.module);
  return std::make_unique<LayerRecorder>(file, unmeasured_layers(chunks), std::move(stages));
}

LayerRecorder::LayerRecorder(std::string file, std::vector<schedule::Layer> layers,
                             std::vector<std::shared_ptr<StageModule>> stages)
    : file_(std::move(file)),
      layers_(std::move(layers)),
      stages_(std::move(stages)),
      watch_(static_cast<int>(layers_.size())) {}

LayerRecorder::~LayerRecorder() {
  try {
    write();
  } catch (const std::exception&) {  // the file then has no layers, which its reader tells
  }
}

void LayerRecorder::end_step() {
  ++steps_;
  if (is_written_ || steps_ <= observe::ModelRecorder::kSteps + 1 || !watch_.is_complete()) return;
  measure_starts();
  write();
}

void LayerRecorder::measure_starts() {
  for (const auto& stage : stages_)
    for (int layer = stage->first(); layer <= stage->last(); ++layer) {
      try {
        measure_start(*stage, layer);
      } catch (const std::exception&) {  // no clone, or it writes into its input: no start is known
      }
    }
}

void LayerRecorder::measure_start(const StageModule& stage, int layer) {
  const Tensors& inputs = watch_.quarter(layer);
  if (inputs.empty()) return;
  const auto clone = stage.copy_of(layer);
  const MeasuredLayer small = timed_passes(
      [&](const Tensors& given) { return clone->forward(given, stage.name_of(layer)); }, inputs);
  const auto at = static_cast<std::size_t>(layer);
  const MeasuredLayer whole = watch_.measured()[at];
  const auto samples = static_cast<double>(watch_.samples());
  const double share = static_cast<double>(inputs.front().size(0)) / samples;
  layers_[at].forward_start = start_of(whole.forward, small.forward, share);
  layers_[at].backward_start = start_of(whole.backward, small.backward, share);
}

void LayerRecorder::write() {
  if (is_written_ || watch_.samples() == 0 || !std::filesystem::exists(file_)) return;
  is_written_ = true;
  schedule::Model model = schedule::read_model(file_);
  model.batch = static_cast<int>(watch_.samples());
  model.layers = layers_;
  spread_updates(updates_, model.tensors);
  const std::vector<MeasuredLayer> measured = watch_.measured();
  for (std::size_t i = 0; i < measured.size(); ++i) {
    schedule::Layer& layer = model.layers[i];
    layer.forward = measured[i].forward;
    layer.backward = measured[i].backward;
    layer.output_bytes = measured[i].output_bytes;
    layer.saved_bytes = measured[i].saved_bytes;
  }
  DurableFile("file of the recorded model", file_).commit(json_of(model));
}

}  // namespace paceline::pipeline
