// Keeps the offers of a model's tensors, and chooses them again at each look
// (docs/compression/menus.md).
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "paceline/core/schedule/adapt/gradient_sums.h"

namespace paceline::schedule {

// All tensors begin with the offer of least compression. A first look records the norms of their
// gradients; from the second look on the change of the norms is known, and all offers are chosen.
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
