// Adds gradients over some steps, now and then, to measure each offer of a compression on the sums.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "paceline/core/collective/group/communicator.h"
#include "paceline/core/compress/methods/compression.h"
#include "paceline/core/schedule/adapt/chosen_offers.h"
#include "paceline/core/schedule/order/model.h"

namespace paceline::schedule {

// The sums of one rank. There is a look every `choose_every` steps, at the last kSteps of them.
class GradientSums {
 public:
  static constexpr std::size_t kSteps = 10;

  // REQUIRES: a menu; tensors of f32, in the same order on all ranks.
  GradientSums(compress::Compression compression, std::vector<Tensor> tensors);

  // Tells whether the gradients of the current step should be added.
  bool is_open() const;
  // Call it before the gradient is sent. COST: reads gradient and sum once, and writes the sum.
  void add(std::size_t tensor, std::span<const float> gradient);
  // Ends the step. Returns true if it is time to look, at once on all ranks that counted the same
  // steps.
  bool end_step();

  // Collective, with the same result on all ranks: looks at the sums since the last look, and
  // clears them. COST: encodes and decodes all gradients with every offer.
  Look look(Communicator& group);
  // For use before anything has been added: only the bytes count. Not collective.
  Look look_at_nothing() const;

  std::size_t steps() const { return steps_; }  // since the last look or the beginning
  void go_on_at(std::size_t steps) { steps_ = steps; }
  const compress::Compression& compression() const { return compression_; }

 private:
  compress::AveragedTensor part_of(std::size_t tensor) const;

  const compress::Compression compression_;
  const std::vector<Tensor> tensors_;
  std::vector<std::vector<float>> sums_;  // by tensor; empty: nothing was added
  std::size_t steps_ = 0;
};

// Keeps the offers of a model's tensors, and chooses them again at each look
// (docs/compression/menus.md). All tensors begin with the offer of least compression. A first look
// records the norms of their gradients; from the second look on the change of the norms is known,
// and all offers are chosen.
class OfferChoice {
 public:
  // The state for a checkpoint, by tensor.
  struct State {
    Offers offers = {};
    std::vector<double> norms = {};  // of the last look; 0: there was none
    std::size_t steps = 0;           // since that look
    bool operator==(const State&) const = default;
  };

  // The arguments are those of GradientSums.
  OfferChoice(compress::Compression compression, std::vector<Tensor> tensors);

  const Offers& present() const { return state_.offers; }
  int looks() const { return looks_; }  // so far

  // Tells whether the gradients of the current step should be added.
  bool sees_gradients() const { return sums_.is_open(); }
  void see(std::size_t tensor, std::span<const float> gradient) { sums_.add(tensor, gradient); }

  // Collective, at the end of each step. Returns true, on all ranks, if the offers have changed.
  // `choose` is called now and then, only on rank 0, and returns one offer for each tensor.
  using Choose = std::function<Offers(const Allowance& allowance, const Offers& present)>;
  bool end_step(Communicator& group, const Choose& choose);

  State state() const;
  // THROWS Error (misuse): the state belongs to other tensors or another menu.
  void restore(const State& state);

 private:
  GradientSums sums_;
  State state_;  // `steps` is unused: sums_ counts them
  int looks_ = 0;
};

}  // namespace paceline::schedule
