// Which compression for which tensor, and when (docs/compression/menus.md): pure functions of what
// was measured. Results are the same wherever the inputs are, so rank 0 decides on sums over all
// ranks and tells the others.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace paceline::compress {

// What one compression would make of a tensor.
struct Offer {
  double bytes = 0;
  double error = 0;  // ||G - C(G)||^2, of gradients added up over some steps
};
// Of each tensor, all compressions that it may have. One with no error (dense) makes every limit
// attainable.
using Menu = std::vector<Offer>;

struct Chosen {
  std::vector<std::size_t> offers;  // one index for each menu
  double cost = 0;                  // bytes, or seconds
};

// L-GreCo (Alimohammadi et al. 2022): the fewest bytes whose errors add up to at most `most_error`,
// by the knapsack's dynamic program over errors in `bins` steps, rounded down: so the sum exceeds
// the limit by one bin for each tensor at most, and a setting that meets the limit exactly is found
// or beaten. Nothing: no choice meets it. COST: tensors * offers * bins.
std::optional<Chosen> fewest_bytes(std::span<const Menu> menus, double most_error,
                                   std::size_t bins = 10000);

// A link that takes one message after the other.
struct Carrier {
  double seconds = 0;  // for each message
  double seconds_per_byte = 0;
};

// The same for the end of the last transfer instead of bytes, where tensor i is ready at ready[i]
// and the tensors go in order. Exact for the errors in bins, because a later end never helps.
// REQUIRES: as many as menus.
std::optional<Chosen> earliest_end(std::span<const Menu> menus, std::span<const double> ready,
                                   const Carrier& carrier, double most_error,
                                   std::size_t bins = 2000);

// The same end with less lost: each tensor, in order, has the offer of the least error with which
// all that follow still end by then. What is hidden behind computation is compressed no further
// than it must be. REQUIRES: a choice for these menus, in time for its cost.
Chosen relaxed(Chosen chosen, std::span<const Menu> menus, std::span<const double> ready,
               const Carrier& carrier);

// Accordion (Agarwal et al. 2021): whether the norm of a tensor's accumulated gradient changes so
// fast that it had better be compressed little for now.
bool in_critical_regime(double norm_before, double norm_now, double threshold = 0.5);

}  // namespace paceline::compress
