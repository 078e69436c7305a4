// Dropout: torch::nn::Dropout, whose mask does not depend on the layout of the ranks.
#pragma once

#include <torch/nn/cloneable.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "paceline/torch/tensor/region.h"

namespace paceline {

namespace tensor {

// All layers of a model share it. Masks are drawn from it, the layer and the element.
struct DropoutClock {
  std::uint64_t seed = 0;
  std::function<std::int64_t()> step = {};  // the number of steps that have ended; null: no clock
  // The rank among the replicas: its row j is row j * replicas + replica of the global batch.
  int replica = 0, replicas = 1;
  // The rank among those that share sequences in zigzag.
  int context = 0, contexts = 1;
};

}  // namespace tensor

// Without a DataParallel it has the bits of torch::nn::Dropout. With one, an element is dropped by
// its place alone: a word of Philox4x32-10 (core/compress/kernels/counter_random.h) under the seed
// of DataParallelOptions, counted by the step, the forward passes of the layer in this step, the
// layer, and the element's index in the activation of the global batch. So a run with any layout
// drops what one process drops, and a run that is resumed what it would have dropped. A pass that
// is recomputed within backward, after a first one without gradients, has the number of the first
// one, which is known again by its input. Activations are [batch, ..., features]; with the style
// sequence, or where ranks share sequences (cp), [batch, this rank's tokens, features]. A rank's
// row j counts as row j * replicas + replica, as samples are dealt. THREAD: one.
class DropoutImpl : public torch::nn::Cloneable<DropoutImpl>, public tensor::PlacedLayer {
 public:
  explicit DropoutImpl(double p = 0.5) : DropoutImpl(torch::nn::DropoutOptions(p)) {}
  // THROWS Error (misuse): p is no probability, or inplace.
  explicit DropoutImpl(const torch::nn::DropoutOptions& dropout_options);

  void reset() override {}
  void pretty_print(std::ostream& stream) const override;
  at::Tensor forward(const at::Tensor& input);

  // DataParallel does it. `layer`: its number among the model's.
  void follow(std::shared_ptr<const tensor::DropoutClock> clock, std::uint32_t layer);

  torch::nn::DropoutOptions options;

  std::string objection(const tensor::Request& request) const override;
  void place(const tensor::Request& request, const tensor::LayerPlacePtr& place) override;
  tensor::LayerPlacePtr place() const override { return place_; }

 private:
  // A pass that may be recomputed.
  struct Recorded {
    std::uint64_t input = 0;  // its fingerprint
    std::uint32_t number = 0;
    const void* node = nullptr;  // of autograd, that recomputed it last
    int backward = -1;           // in which it did
  };
  at::Tensor mask_like(const at::Tensor& input);
  std::uint32_t number_of_pass(const at::Tensor& input);
  std::uint32_t number_of_recomputed(const at::Tensor& input);

  tensor::LayerPlacePtr place_;  // null: nothing is split
  std::shared_ptr<const tensor::DropoutClock> clock_;
  std::uint32_t layer_ = 0;
  std::int64_t step_ = -1;
  std::uint32_t passes_ = 0;        // in that step
  std::vector<Recorded> recorded_;  // of that step
};
TORCH_MODULE(Dropout);

}  // namespace paceline
