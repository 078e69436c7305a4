// Chooses a compression for each tensor (docs/compression/menus.md), by pure functions of
// measurements. Equal inputs give equal results, so rank 0 decides on sums over all ranks and tells
// the others.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "paceline/core/compress/methods/compression.h"

namespace paceline::compress {

// The bytes and the error of one compression of a tensor.
struct Offer {
  double bytes = 0;
  double error = 0;  // ||G - C(G)||^2, where G is a sum of gradients over some steps
};
// All compressions that one tensor may have. An offer without error (dense) makes every limit
// attainable.
using Menu = std::vector<Offer>;

struct Chosen {
  std::vector<std::size_t> offers;  // one index for each menu
  double cost = 0;                  // bytes, or seconds
};

// L-GreCo (Alimohammadi et al. 2022): finds the fewest bytes whose errors add up to at most
// `most_error`, by the knapsack's dynamic program over errors in `bins` steps. Errors are rounded
// down, so the sum may exceed the limit by one bin for each tensor, and a choice that meets the
// limit exactly is found or beaten. Returns nothing if no choice meets the limit. COST: tensors *
// offers * bins.
std::optional<Chosen> fewest_bytes(std::span<const Menu> menus, double most_error,
                                   std::size_t bins = 10000);

// A link that takes one message after the other.
struct LinkSpeed {
  double seconds = 0;  // a message
  double seconds_per_byte = 0;
};

// Minimises the end of the last transfer instead of the bytes, where tensor i is ready at ready[i]
// and the tensors are sent in order. It is exact for the errors in bins, because a later end never
// helps. REQUIRES: ready.size() == menus.size().
std::optional<Chosen> earliest_end(std::span<const Menu> menus, std::span<const double> ready,
                                   const LinkSpeed& link, double most_error,
                                   std::size_t bins = 2000);

// Keeps the end of `chosen` but lowers the error: each tensor, in order, gets the offer of the
// least error with which all that follow still end in time. Transfers hidden behind computation are
// thus compressed no further than necessary. REQUIRES: `chosen` is a choice for these menus that
// ends by chosen.cost.
Chosen relaxed(Chosen chosen, std::span<const Menu> menus, std::span<const double> ready,
               const LinkSpeed& link);

// Accordion (Agarwal et al. 2021): tells whether the norm of a tensor's accumulated gradient
// changes so fast that the tensor should be compressed little for now.
bool in_critical_regime(double norm_before, double norm_now, double threshold = 0.5);

// Measures the bytes and the error of each offer of a compression by trying it on a gradient.
// Returns one Offer for each offer of the compression, in bytes that a rank brings to exchanges; a
// tensor that is not compressed has the single offer to travel whole. Each trial begins without
// state, on one rank alone. An error that is not finite means that no result exists, because the
// gradient is not finite or overflows. REQUIRES: gradient.size() == part.elements(). COST: encodes
// and decodes the gradient once for each offer.
Menu tried_offers(const Compression& compression, AveragedTensor part,
                  std::span<const float> gradient);

}  // namespace paceline::compress
