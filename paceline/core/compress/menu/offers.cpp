#include "paceline/core/compress/menu/offers.h"

#include <algorithm>
#include <limits>
#include <vector>

namespace paceline::compress {
namespace {

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

Menu tried_offers(const Compression& compression, Part part, std::span<const float> gradient) {
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
