#include "paceline/torch/pipeline/layer_recorder.h"

#include <exception>
#include <filesystem>
#include <utility>

#include "paceline/core/base/durable_file.h"
#include "paceline/core/observe/model_recorder.h"
#include "paceline/core/schedule/schedule.h"

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

std::unique_ptr<LayerRecorder> LayerRecorder::wanted(DeviceMesh& mesh,
                                                     const std::vector<Chunk>& chunks) {
  const std::string& file = mesh.job().record_file();
  const bool has_parts = mesh.size("pp") > 1 || mesh.size("tp") > 1 || mesh.size("cp") > 1;
  if (file.empty() || mesh.job().rank() != 0 || has_parts) return nullptr;
  return std::make_unique<LayerRecorder>(file, unmeasured_layers(chunks));
}

LayerRecorder::LayerRecorder(std::string file, std::vector<schedule::Layer> layers)
    : file_(std::move(file)),
      layers_(std::move(layers)),
      watch_(static_cast<int>(layers_.size())) {}

LayerRecorder::~LayerRecorder() {
  try {
    write();
  } catch (const std::exception&) {  // the file then has no layers, which its reader tells
  }
}

void LayerRecorder::end_step() {
  ++steps_;
  if (steps_ > observe::ModelRecorder::kSteps + 1 && watch_.is_complete()) write();
}

void LayerRecorder::write() {
  if (is_written_ || watch_.samples() == 0 || !std::filesystem::exists(file_)) return;
  is_written_ = true;
  schedule::Model model = schedule::read_model(file_);
  model.batch = static_cast<int>(watch_.samples());
  model.layers = layers_;
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
