// LayerRecorder: adds the layers of a model to the file that `paceline profile` makes of its
// gradients (torch/gradient/step_figures.h), from the passes of a training on one process. Clones
// of the layers run a quarter of the samples too: what a pass takes however few its samples are
// decides how many micro-batches pay.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "paceline/core/mesh/mesh.h"
#include "paceline/core/schedule/order/model.h"
#include "paceline/torch/pipeline/measured/layer_watch.h"
#include "paceline/torch/pipeline/stages_of_rank.h"

namespace paceline::pipeline {

// Layers as a profile has them, with the bytes and elements of their parameters and no times. Both
// are those of this process.
std::vector<schedule::Layer> unmeasured_layers(const std::vector<Chunk>& chunks);

// THREAD: one. It ends after the DataParallels of the training, so that the file is there.
class LayerRecorder {
 public:
  // Null unless the environment asks for a record (PACELINE_RECORD), this is rank 0 of the job, and
  // it has all layers, whole, and each sample. `chunks` need be there until this returns.
  static std::unique_ptr<LayerRecorder> wanted(DeviceMesh& mesh, const std::vector<Chunk>& chunks);

  // `stages` are empty where layers may communicate: how long small passes take is not measured.
  LayerRecorder(std::string file, std::vector<schedule::Layer> layers,
                std::vector<std::shared_ptr<StageModule>> stages);
  // Adds what was seen if the training was too short for end_step() to do so.
  ~LayerRecorder();
  LayerRecorder(const LayerRecorder&) = delete;
  LayerRecorder& operator=(const LayerRecorder&) = delete;

  LayerWatch& watch() { return watch_; }
  // How long the optimizers of a step took that the pipeline itself steps, clipping included: the
  // gradients' part knows of those alone that a DataParallel steps.
  void saw_update(double seconds) { updates_.push_back(seconds); }
  // Replaces the file once enough was seen and the gradients' part is written. THROWS Error (io).
  void end_step();

 private:
  void write();
  void measure_starts();
  void measure_start(const StageModule& stage, int layer);

  const std::string file_;
  std::vector<schedule::Layer> layers_;
  const std::vector<std::shared_ptr<StageModule>> stages_;
  LayerWatch watch_;
  std::vector<double> updates_;
  int steps_ = 0;
  bool is_written_ = false;
};

}  // namespace paceline::pipeline
