// Gradients added up over some steps now and then, to see what each offer of a compression would
// make of them.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "paceline/core/collective/communicator.h"
#include "paceline/core/compress/compression.h"
#include "paceline/core/schedule/chosen_offers.h"
#include "paceline/core/schedule/model.h"

namespace paceline::schedule {

// Of one rank. Every `choose_every` steps there is a look, at the last kSteps of them.
class GradientSums {
 public:
  static constexpr std::size_t kSteps = 10;

  // REQUIRES: a menu; tensors of f32, in any order that all ranks have.
  GradientSums(compress::Compression compression, std::vector<Tensor> tensors);

  // Whether the gradients of the present step are to be added.
  bool is_open() const;
  // Before they go on their way. COST: reads gradient and sum once, and writes the sum.
  void add(std::size_t tensor, std::span<const float> gradient);
  // The step is over. True: it is time to look, on all ranks that counted the same steps.
  bool end_step();

  // Collective, the same on all ranks: at what was added since the last one, which is forgotten.
  // COST: encodes and decodes all gradients by every offer.
  Look look(Communicator& group);
  // When nothing has been added yet, on any rank by itself: the bytes alone count.
  Look look_at_nothing() const;

  std::size_t steps() const { return steps_; }  // since the last look, or the beginning
  void go_on_at(std::size_t steps) { steps_ = steps; }
  const compress::Compression& compression() const { return compression_; }

 private:
  compress::Part part_of(std::size_t tensor) const;

  const compress::Compression compression_;
  const std::vector<Tensor> tensors_;
  std::vector<std::vector<float>> sums_;  // by tensor; empty: nothing was added
  std::size_t steps_ = 0;
};

}  // namespace paceline::schedule
