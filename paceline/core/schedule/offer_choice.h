// The offers by which a model's tensors travel, from look to look (docs/compression/menus.md).
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "paceline/core/schedule/gradient_sums.h"

namespace paceline::schedule {

// All tensors begin with what compresses them least. A first look sees how large their gradients
// are; from the second on it is seen how fast that changes, and all is chosen.
class OfferChoice {
 public:
  // What a checkpoint keeps; by tensor.
  struct State {
    Offers offers = {};
    std::vector<double> norms = {};  // of the last look; 0: there was none
    std::size_t steps = 0;           // since then
    bool operator==(const State&) const = default;
  };

  // As GradientSums.
  OfferChoice(compress::Compression compression, std::vector<Tensor> tensors);

  const Offers& present() const { return state_.offers; }
  int looks() const { return looks_; }  // so far

  // Whether the gradients of the present step are to be added.
  bool sees_gradients() const { return sums_.is_open(); }
  void see(std::size_t tensor, std::span<const float> gradient) { sums_.add(tensor, gradient); }

  // Collective, at the end of each step. True: the offers are others now, on all ranks. `choose` is
  // called on rank 0, now and then: it gives one of the present offers' kind, as it finds best.
  using Choose = std::function<Offers(const Allowance& allowance, const Offers& present)>;
  bool end_step(Communicator& group, const Choose& choose);

  State state() const;
  // THROWS Error (misuse): it is of other tensors, or of another menu.
  void restore(const State& state);

 private:
  GradientSums sums_;
  State state_;  // without the steps, which sums_ counts
  int looks_ = 0;
};

}  // namespace paceline::schedule
