// LayerWatch: measures the layers of a model in the passes of a training.
//
// The forward seconds of a layer are those of its call. For the backward ones the inputs of each
// layer pass through a mark: a node of autograd that changes nothing and notes when the gradient of
// all of them is there. Autograd computes what was recorded last first, so all gradients of a
// layer's weights are made between the mark of the next layer and its own. What comes before the
// first mark, such as Flatten on data, has no backward. The last layer has the time of the loss.
//
// The memory that a layer saves is looked at in the first two passes: that which its call has taken
// and that only the graph still holds, and its inputs if the graph has kept them. Memory that two
// layers save, as a ReLU its output and a Linear its input, counts for the first of them, so that
// sums are exact.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "paceline/core/base/stopwatch.h"

namespace paceline::pipeline {

// Seconds are medians. Bytes are those of the samples of one pass.
struct MeasuredLayer {
  double forward = 0, backward = 0;
  std::size_t output_bytes = 0, saved_bytes = 0;
};

// THREAD: one, in which forwards and backwards run. Graphs that it has marked are not run after its
// end.
class LayerWatch {
 public:
  using Tensors = std::vector<at::Tensor>;

  // So many passes of each layer are `kept` after those that are `dropped`, in which memory is
  // allocated and kernels are chosen.
  explicit LayerWatch(int layers, int dropped = 5, int kept = 20);
  LayerWatch(const LayerWatch&) = delete;
  LayerWatch& operator=(const LayerWatch&) = delete;

  // Calls the layer. It is not measured when it was measured often enough, or where autograd does
  // not record.
  Tensors run(int layer, const Tensors& inputs,
              const std::function<Tensors(const Tensors& inputs)>& forward);
  // Adds to the last forward of the layer: the loss's.
  void add_forward(int layer, double seconds);
  // Around a backward pass of the layers first .. last. Passes end in the order of their forwards.
  void begin_backward();
  void end_backward(int first, int last);

  bool is_complete() const;
  // REQUIRES: at least one pass has ended. Passes that were to be dropped count if there are no
  // others.
  std::vector<MeasuredLayer> measured() const;
  std::int64_t samples() const { return samples_; }  // of a pass; 0: there was none
  // The layer's inputs for a quarter of the samples, from the last pass that was measured. They are
  // empty if the pass was computed in other types (autocast) or has no inputs by samples.
  const Tensors& quarter(int layer) const {
    return layers_[static_cast<std::size_t>(layer)].quarter;
  }

  void mark(int layer) { marks_[static_cast<std::size_t>(layer)] = since_begin_.seconds(); }

 private:
  struct Layer {
    std::vector<double> forward, backward;
    MeasuredLayer bytes;
    Tensors quarter;
  };
  Tensors marked(int layer, const Tensors& inputs);
  Tensors looked_at(Layer& layer, const Tensors& inputs,
                    const std::function<Tensors(const Tensors& inputs)>& forward);
  double median_of(const std::vector<double>& seconds) const;

  const std::size_t dropped_, passes_;
  std::vector<Layer> layers_;
  std::vector<std::optional<double>> marks_;  // of the backward pass that runs
  Stopwatch since_begin_;
  std::set<const void*> counted_;  // memory that layers before have saved, in the pass looked at
  std::int64_t samples_ = 0;
};

// LiveMemory: the bytes that libtorch has taken from the processor's memory, and not given back,
// while it lives.
//
// THREAD: the one that makes it, whose allocations it sees. No profiler of libtorch may be on. They
// nest like scopes, and the inner one alone counts.
class LiveMemory {
 public:
  LiveMemory();
  LiveMemory(const LiveMemory&) = delete;
  LiveMemory& operator=(const LiveMemory&) = delete;

  std::int64_t bytes() const;  // less than 0: more was given back than taken
  std::int64_t peak() const;   // the most that they have been

 private:
  class Count;
  std::shared_ptr<Count> count_;
  c10::DebugInfoGuard guard_;
};

}  // namespace paceline::pipeline
