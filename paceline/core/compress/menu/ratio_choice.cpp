#include "paceline/core/compress/menu/ratio_choice.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "paceline/core/base/check.h"

namespace paceline::compress {
namespace {

// An error in bins; more than `bins` means that it exceeds the limit.
std::size_t in_bins(double error, double most_error, std::size_t bins) {
  if (error == 0) return 0;
  if (!(most_error > 0)) return bins + 1;
  const double count = std::floor(error * static_cast<double>(bins) / most_error);
  return count <= static_cast<double>(bins) ? static_cast<std::size_t>(count) : bins + 1;
}

// Sorts by error, so that smaller errors win at equal costs.
std::vector<std::size_t> by_error(const Menu& menu) {
  std::vector<std::size_t> order(menu.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&menu](std::size_t i) { return menu[i].error; });
  return order;
}

// The least cost at which the errors of all menus fit in the bins. `after(cost, menu, bytes)` is
// the cost with one more tensor, and grows with the cost before it.
std::optional<Chosen> least(std::span<const Menu> menus, double most_error, std::size_t bins,
                            const auto& after) {
  constexpr double kNone = std::numeric_limits<double>::infinity();
  std::vector<double> best(bins + 1, 0.0), next;
  std::vector<std::vector<std::size_t>> taken;  // the offer taken, for each menu and number of bins
  for (std::size_t m = 0; m < menus.size(); ++m) {
    next.assign(bins + 1, kNone);
    std::vector<std::size_t>& offers = taken.emplace_back(bins + 1);
    for (const std::size_t offer : by_error(menus[m])) {
      for (std::size_t w = in_bins(menus[m][offer].error, most_error, bins), rest = 0; w <= bins;
           ++w, ++rest) {
        const double cost = after(best[rest], m, menus[m][offer].bytes);
        if (cost >= next[w]) continue;
        next[w] = cost;
        offers[w] = offer;
      }
    }
    best.swap(next);
  }
  if (best[bins] == kNone) return std::nullopt;
  Chosen chosen{std::vector<std::size_t>(menus.size()), best[bins]};
  std::size_t w = bins;
  for (std::size_t m = menus.size(); m-- > 0;) {
    chosen.offers[m] = taken[m][w];
    w -= in_bins(menus[m][chosen.offers[m]].error, most_error, bins);
  }
  return chosen;
}

// Carries out the collective of a single rank: its input becomes its output.
void carry_out_alone(const Exchange& exchange) {
  if (exchange.kind == Exchange::Kind::swap || exchange.input.count != exchange.output.count ||
      exchange.input.data == exchange.output.data)
    return;
  std::ranges::copy(exchange.input.bytes(), exchange.output.bytes().begin());
}

double squared_distance(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double difference = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    sum += difference * difference;
  }
  return sum;
}

Offer tried(Averaging& averaging, std::span<const float> gradient) {
  std::vector<float> mean(gradient.begin(), gradient.end());
  Offer offer{.bytes = 0, .error = std::numeric_limits<double>::infinity()};
  auto exchange = averaging.begin(mean, 0);
  while (exchange) {
    offer.bytes += static_cast<double>(exchange->input.size_bytes());
    carry_out_alone(*exchange);
    exchange = averaging.next().value();
  }
  if (averaging.overflowed()) return offer;
  averaging.finish().value();
  offer.error = squared_distance(gradient, mean);
  return offer;
}

}  // namespace

std::optional<Chosen> fewest_bytes(std::span<const Menu> menus, double most_error,
                                   std::size_t bins) {
  return least(menus, most_error, bins,
               [](double bytes, std::size_t, double more) { return bytes + more; });
}

std::optional<Chosen> earliest_end(std::span<const Menu> menus, std::span<const double> ready,
                                   const LinkSpeed& link, double most_error, std::size_t bins) {
  PACELINE_CHECK(menus.size() == ready.size(), "{} menus and {} times", menus.size(), ready.size());
  return least(menus, most_error, bins, [&](double end, std::size_t tensor, double bytes) {
    return std::max(end, ready[tensor]) + link.seconds + link.seconds_per_byte * bytes;
  });
}

Chosen relaxed(Chosen chosen, std::span<const Menu> menus, std::span<const double> ready,
               const LinkSpeed& link) {
  const auto seconds = [&](std::size_t m, std::size_t offer) {
    return link.seconds + link.seconds_per_byte * menus[m][offer].bytes;
  };
  std::vector<double> latest(menus.size(), chosen.cost);  // latest end of each tensor
  for (std::size_t m = menus.size(); m-- > 1;)
    latest[m - 1] = latest[m] - seconds(m, chosen.offers[m]);
  double end = 0;
  for (std::size_t m = 0; m < menus.size(); ++m) {
    const double begin = std::max(end, ready[m]);
    std::size_t& mine = chosen.offers[m];
    for (std::size_t offer = 0; offer < menus[m].size(); ++offer) {
      if (menus[m][offer].error < menus[m][mine].error && begin + seconds(m, offer) <= latest[m])
        mine = offer;
    }
    end = begin + seconds(m, mine);
  }
  return chosen;
}

bool in_critical_regime(double norm_before, double norm_now, double threshold) {
  return norm_before == 0 || std::abs(norm_before - norm_now) / norm_before >= threshold;
}

Menu tried_offers(const Compression& compression, AveragedTensor part,
                  std::span<const float> gradient) {
  part.rank = 0;
  part.ranks = 1;
  const double whole = static_cast<double>(gradient.size_bytes());
  if (!compression.compresses(part)) return {{.bytes = whole, .error = 0}};
  Menu menu;
  for (int offer = 0; offer < compression.offers(); ++offer) {
    if (compression.is_whole(offer)) menu.push_back({.bytes = whole, .error = 0});
    else menu.push_back(tried(*compression.averaging(part, offer), gradient));
  }
  return menu;
}

}  // namespace paceline::compress
