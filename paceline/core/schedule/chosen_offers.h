// Which of its compression's offers each tensor travels by (docs/compression/menus.md): in space
// what ends a step soonest within the loss of the first offer, in time less compression where
// gradients change fast. Pure, of what ranks saw together: rank 0 decides, and tells the others.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "paceline/core/compress/ratio_choice.h"
#include "paceline/core/schedule/costs.h"
#include "paceline/core/schedule/model.h"

namespace paceline::schedule {

using Offers = std::vector<int>;  // one for each tensor

// What some steps' gradients, added up, showed of each tensor; summed over the ranks.
struct Look {
  std::vector<compress::Menu> menus;  // a menu's last offer is to travel whole, unless it has one
  std::vector<double> norms;

  bool is_finite() const;
};

// The longest that is not whole: for tensors of which nothing is known, or whose gradients change
// fast.
int least_compressed(const compress::Menu& menu);
Offers least_compressed(const Look& look);

// What a choice may be: an offer that is out of the question has an infinite error.
struct Allowance {
  std::vector<compress::Menu> menus;
  double most_error = 0;  // of all tensors together

  bool allows(const Offers& offers) const;
};
// A tensor in a critical regime (compress/ratio_choice.h) is compressed least; the others may lose
// together what they would by their first offers. `norms_before`: of the look before; 0: there was
// none.
Allowance allowance(const Look& look, std::span<const double> norms_before);

// L-GreCo's: the fewest bytes. `present` stays where it is allowed, and not longer by a fiftieth.
Offers fewest_bytes_offers(const Allowance& allowance, const Offers& present);

// Those with which a step takes `seconds` least: of the fewest bytes, the earliest end where
// tensors go one after the other as they are ready, the same with less lost
// (compress/ratio_choice.h), and the first offers. What is within a fiftieth counts as equal: then
// the present ones stay, else those win that lose least. All by tensor in forward order, as the
// model has them.
Offers fastest_offers(const Allowance& allowance, const Offers& present, const Model& model,
                      const LinkCosts& links, const CodecCost& codec,
                      const std::function<double(const Offers&)>& seconds);

}  // namespace paceline::schedule
