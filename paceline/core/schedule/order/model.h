// A training step as the schedule sees it: the tensors, and the seconds of the computation around
// each (docs/schedules/README.md).
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace paceline::schedule {

// A parameter and its gradient. Seconds are those of one worker, without any transfer.
struct Tensor {
  std::size_t bytes = 0;
  double forward = 0, backward = 0, update = 0;
  std::size_t rows = 0;   // its first dimension; 1: a vector; 0: unknown
  std::string name = {};  // the parameter's; empty: unknown
  int offer = 0;          // the offer of its compression in use (compress/methods/compression.h)
  bool operator==(const Tensor&) const = default;
};

// The elements of a row if the tensor is known to be a matrix, else 0.
std::size_t columns_of(const Tensor& tensor, std::size_t element_bytes);

// A layer of a model that is cut into stages (core/plan), as profiled. Seconds and bytes are those
// of a step's samples on one worker.
struct Layer {
  std::string name = {};
  double forward = 0, backward = 0;
  std::size_t output_bytes = 0;  // the activations that go to the next layer
  std::size_t weight_bytes = 0;  // its parameters
  std::size_t saved_bytes = 0;   // kept by its forward pass for its backward pass
  std::size_t parameters = 0;    // elements of its parameters
  // The seconds of a pass that do not shrink with its samples, part of those above; 0: not
  // measured.
  double forward_start = 0, backward_start = 0;
  bool operator==(const Layer&) const = default;
};

// Tensors are in forward order: the order in which a forward pass first reads them. The backward
// pass makes their gradients ready in the opposite order, the *send order*. (A tied embedding is
// read first and ready last.)
struct Model {
  std::string name;
  std::vector<Tensor> tensors;
  int batch = 1;  // samples of a worker's step
  // The layers in forward order, where they were recorded. They hold the same computation as the
  // tensors, divided otherwise.
  std::vector<Layer> layers = {};

  int size() const { return static_cast<int>(tensors.size()); }
  std::size_t bytes() const;
  double forward() const;
  double backward() const;
  double update() const;
  double compute() const { return forward() + backward() + update(); }
  // The tensor at a place of the send order.
  const Tensor& sent(int place) const {
    return tensors[tensors.size() - 1 - static_cast<std::size_t>(place)];
  }
  bool operator==(const Model&) const = default;
};

// Both are by places in the send order.
std::vector<double> ready_times(const Model& model);  // seconds after the step's start
std::vector<double> sent_bytes(const Model& model);

// A copy in which all computation takes `factor` times as long.
Model scaled(Model model, double factor);
// A copy without layers in which each tensor has a k-th of its bytes, rounded to whole floats, at
// least one.
// REQUIRES: k >= 1.
Model divided(Model model, int k);

}  // namespace paceline::schedule
