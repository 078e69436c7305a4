// Chooses an offer of the compression for each tensor (docs/compression/menus.md): among tensors,
// the offers that end a step soonest within the loss of the first offer; over time, less
// compression while gradients change fast. The functions are pure and take sums over all ranks:
// rank 0 decides and tells the others.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "paceline/core/compress/menu/ratio_choice.h"
#include "paceline/core/schedule/order/costs.h"
#include "paceline/core/schedule/order/model.h"

namespace paceline::schedule {

using Offers = std::vector<int>;  // one for each tensor

// Measurements of each tensor from the sum of some steps' gradients, summed over the ranks.
struct Look {
  std::vector<compress::Menu> menus;  // the last offer is to travel whole, except in a menu of one
  std::vector<double> norms;

  bool is_finite() const;
};

// The offer of most bytes that is not whole, for tensors of which nothing is known or whose
// gradients change fast.
int least_compressed(const compress::Menu& menu);
Offers least_compressed(const Look& look);

// The limits of a choice: an excluded offer has an infinite error.
struct Allowance {
  std::vector<compress::Menu> menus;
  double most_error = 0;  // of all tensors together

  bool allows(const Offers& offers) const;
};
// A tensor in a critical regime (compress/menu/ratio_choice.h) gets the least compression; the
// others together may lose as much as with their first offers. `norms_before` come from the look
// before; 0 means that there was none.
Allowance allowance(const Look& look, std::span<const double> norms_before);

// L-GreCo's choice: the fewest bytes. `present` is kept if it is allowed and at most 2 % longer.
Offers fewest_bytes_offers(const Allowance& allowance, const Offers& present);

// The offers for which `seconds` of a step is least, among three candidates: the fewest bytes; the
// earliest end if tensors are sent one after the other as they become ready, then relaxed
// (compress/menu/ratio_choice.h); and the first offers. Times within 2 % count as equal: then the
// present offers stay, else those of the least error win. All are by tensor in forward order, as in
// the model.
Offers fastest_offers(const Allowance& allowance, const Offers& present, const Model& model,
                      const LinkCosts& links, const CodecCost& codec,
                      const std::function<double(const Offers&)>& seconds);

}  // namespace paceline::schedule
