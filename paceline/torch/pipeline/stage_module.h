// StageModule: some consecutive layers of a model, as one module whose parameters have the names
// that they have in the whole model.
#pragma once

#include <torch/nn/module.h>

#include <memory>
#include <string>
#include <vector>

#include "paceline/torch/pipeline/layers.h"
#include "paceline/torch/pipeline/measured/layer_watch.h"

namespace paceline::pipeline {

// THREAD: one at a time.
class StageModule final : public torch::nn::Module {
 public:
  // Makes the layers first .. last.
  StageModule(const Layers& layers, int first, int last);

  Tensors forward(Tensors inputs);
  // The same, of which only the inputs of segments of so many layers are kept for the backward
  // pass; 0: everything is.
  Tensors forward(Tensors inputs, int recompute_every);
  // A clone that has the same values: its trained parameters have storages of their own, while its
  // buffers and frozen parameters share those of this one. The default generator is as it was
  // afterwards. THROWS Error (misuse), by name and class: a layer cannot be cloned.
  std::shared_ptr<StageModule> copy() const;
  // A clone of one layer, with storages of its own. THROWS as copy().
  std::unique_ptr<PipelineLayer> copy_of(int layer) const;
  // Measures its layers, by their numbers in the whole model, until `watch` has seen enough of
  // them. It lives as long as this.
  void measure(LayerWatch& watch) { watch_ = &watch; }
  int first() const { return first_; }
  int last() const { return first_ + static_cast<int>(layers_.size()) - 1; }
  const std::string& name_of(int layer) const {
    return names_[static_cast<std::size_t>(layer - first_)];
  }
  // REQUIRES: first() <= layer <= last().
  const torch::nn::Module& layer(int layer) const;

 private:
  StageModule(int first, std::vector<std::string> names,
              std::vector<std::unique_ptr<PipelineLayer>> layers);
  Tensors forward_of(std::size_t layer, const Tensors& inputs);
  Tensors run(Tensors tensors, std::size_t first, std::size_t end);

  int first_;
  LayerWatch* watch_ = nullptr;
  std::vector<std::string> names_;
  std::vector<std::unique_ptr<PipelineLayer>> layers_;
};

}  // namespace paceline::pipeline
