// CrossEntropyLoss: torch::nn::CrossEntropyLoss, also of logits whose words are split among ranks.
#pragma once

#include <torch/nn/cloneable.h>
#include <torch/nn/modules/loss.h>
#include <torch/nn/pimpl.h>

#include <ostream>
#include <string>

#include "paceline/torch/tensor/region.h"

namespace paceline {

// The loss is torch::nn::CrossEntropyLoss's, bit by bit, until a plan gives the Linear that makes
// the logits the style vocabulary: parallelize() places every loss in the model then. From there on
// a rank's logits are those of its words, targets are words of the whole vocabulary, and every rank
// gets the same loss, for which two messages of all ranks travel: 3 numbers for each target,
// however long the vocabulary is. Shoeybi et al. 2019, section 3. THREAD, THROWS: as LinearImpl.
class CrossEntropyLossImpl : public torch::nn::Cloneable<CrossEntropyLossImpl>,
                             public tensor::PlacedLayer {
 public:
  explicit CrossEntropyLossImpl(torch::nn::CrossEntropyLossOptions loss_options = {});

  void reset() override;
  void pretty_print(std::ostream& stream) const override;
  // logits: [targets, words of this rank]; targets: [targets], whole numbers.
  at::Tensor forward(const at::Tensor& logits, const at::Tensor& targets);

  torch::nn::CrossEntropyLossOptions options;
  at::Tensor weight;  // of each word; undefined: all count alike

  std::string objection(const tensor::Request& request) const override;
  void place(const tensor::Request& request, const tensor::LayerPlacePtr& place) override;
  tensor::LayerPlacePtr place() const override { return place_; }

 private:
  tensor::LayerPlacePtr place_;  // null: nothing is split
  std::int64_t words_ = 0;       // of the whole vocabulary
};
TORCH_MODULE(CrossEntropyLoss);

}  // namespace paceline
