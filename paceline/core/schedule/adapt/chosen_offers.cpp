#include "paceline/core/schedule/adapt/chosen_offers.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace paceline::schedule {
namespace {

using compress::Menu;

// A cost within 2 % of the least counts as equal.
constexpr double kAsGood = 1 / 0.98;

const compress::Offer& offer_of(const Menu& menu, int offer) {
  return menu.at(static_cast<std::size_t>(offer));
}

double sum_of(const std::vector<Menu>& menus, const Offers& offers, double compress::Offer::*what) {
  double sum = 0;
  for (std::size_t i = 0; i < menus.size(); ++i) sum += offer_of(menus[i], offers[i]).*what;
  return sum;
}

Offers offers_of(const compress::Chosen& chosen) {
  return {chosen.offers.begin(), chosen.offers.end()};
}

// Returns, among the candidates that count as equal to the cheapest, the present offers, else those
// with the least error: a change lays out all messages again.
Offers best_allowed(const Allowance& allowance, const std::vector<Offers>& candidates,
                    const Offers& present, const std::function<double(const Offers&)>& cost) {
  std::vector<double> costs;
  for (const Offers& candidate : candidates) costs.push_back(cost(candidate));
  const double enough = kAsGood * *std::ranges::min_element(costs);
  if (allowance.allows(present) && cost(present) <= enough) return present;
  const Offers* best = nullptr;
  double least_error = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const double error = sum_of(allowance.menus, candidates[i], &compress::Offer::error);
    if (costs[i] > enough || (best != nullptr && error >= least_error)) continue;
    best = &candidates[i];
    least_error = error;
  }
  return *best;
}

// Converts between forward order and send order.
template <typename T>
std::vector<T> turned(std::vector<T> values) {
  std::ranges::reverse(values);
  return values;
}

// Replaces the bytes of menus by seconds on the link.
std::vector<Menu> timed(std::vector<Menu> menus, const Model& model, const LinkCosts& links,
                        const CodecCost& codec) {
  const double beta = codec.is_linear ? links.all_reduce.beta : links.all_gather.beta;
  for (std::size_t i = 0; i < menus.size(); ++i) {
    const auto bytes = static_cast<double>(model.tensors[i].bytes);
    for (std::size_t offer = 0; offer < menus[i].size(); ++offer) {
      const bool is_chosen = menus[i].size() > 1;
      menus[i][offer].bytes = bytes * (is_chosen ? codec.of(static_cast<int>(offer)).ratio * beta
                                                 : links.all_reduce.beta);
    }
  }
  return menus;
}

}  // namespace

bool Look::is_finite() const {
  for (const Menu& menu : menus) {
    for (const compress::Offer& offer : menu)
      if (!std::isfinite(offer.error)) return false;
  }
  return std::ranges::all_of(norms, [](double norm) { return std::isfinite(norm); });
}

int least_compressed(const Menu& menu) {
  if (menu.size() == 1) return 0;
  const auto longest =
      std::ranges::max_element(menu.begin(), menu.end() - 1, {}, &compress::Offer::bytes);
  return static_cast<int>(longest - menu.begin());
}

Offers least_compressed(const Look& look) {
  Offers offers;
  for (const Menu& menu : look.menus) offers.push_back(least_compressed(menu));
  return offers;
}

bool Allowance::allows(const Offers& offers) const {
  return offers.size() == menus.size() &&
         sum_of(menus, offers, &compress::Offer::error) <= most_error;
}

Allowance allowance(const Look& look, std::span<const double> norms_before) {
  Allowance allowance{.menus = look.menus};
  for (std::size_t i = 0; i < look.menus.size(); ++i) {
    Menu& menu = allowance.menus[i];
    if (!compress::in_critical_regime(norms_before[i], look.norms[i])) {
      allowance.most_error += menu.front().error;
      continue;
    }
    const int least = least_compressed(menu);
    for (std::size_t offer = 0; offer < menu.size(); ++offer) {
      menu[offer].error =
          static_cast<int>(offer) == least ? 0 : std::numeric_limits<double>::infinity();
    }
  }
  return allowance;
}

Offers fewest_bytes_offers(const Allowance& allowance, const Offers& present) {
  const auto fewest = compress::fewest_bytes(allowance.menus, allowance.most_error);
  return best_allowed(allowance, {offers_of(*fewest)}, present, [&](const Offers& offers) {
    return sum_of(allowance.menus, offers, &compress::Offer::bytes);
  });
}

Offers fastest_offers(const Allowance& allowance, const Offers& present, const Model& model,
                      const LinkCosts& links, const CodecCost& codec,
                      const std::function<double(const Offers&)>& seconds) {
  const auto by_time = turned(timed(allowance.menus, model, links, codec));
  const double start = codec.start + links.all_reduce.alpha;
  const auto ready = ready_times(model);
  const auto earliest = compress::earliest_end(by_time, ready, {start, 1}, allowance.most_error);
  const auto relaxed = compress::relaxed(*earliest, by_time, ready, {start, 1});
  const auto fewest = compress::fewest_bytes(allowance.menus, allowance.most_error);
  std::vector<Offers> candidates = {turned(offers_of(relaxed)), turned(offers_of(*earliest)),
                                    offers_of(*fewest)};
  const Offers first(allowance.menus.size(), 0);
  if (allowance.allows(first)) candidates.push_back(first);
  return best_allowed(allowance, candidates, present, seconds);
}

}  // namespace paceline::schedule
