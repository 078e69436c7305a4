// Times the layers of a model before a training, each by its own piece: a layer is made, runs
// forward and backward a few times on what the layer before it gave, and goes, so that there is
// memory for one layer at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "paceline/torch/pipeline/layers.h"
#include "paceline/torch/pipeline/measured/layer_watch.h"
#include "paceline/torch/pipeline/pipeline_options.h"

namespace paceline::pipeline {

// A forward and backward pass of one layer, a few times on the same inputs. A gradient goes
// back to those that require one. The default generator is as it was.
MeasuredLayer timed_passes(const std::function<Tensors(const Tensors&)>& forward,
                           const Tensors& inputs);

// For the first `samples` of `options.sample`. The last layer has the time of the loss. Memory that
// two layers save counts for both. Layers that were made before (of a Sequential) have their
// buffers and no gradients afterwards, and the default generator is as it was. Layers may not
// communicate. THROWS Error (misuse): there is no sample, or it is smaller.
std::vector<MeasuredLayer> timed_layers(const Layers& layers, const PipelineOptions& options,
                                        std::int64_t samples);

}  // namespace paceline::pipeline
