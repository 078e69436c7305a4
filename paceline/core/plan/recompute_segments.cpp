#include "paceline/core/plan/recompute_segments.h"

#include <fmt/format.h>

#include <algorithm>

#include "paceline/core/base/check.h"
#include "paceline/core/base/number.h"

namespace paceline::plan {
namespace {

constexpr std::string_view kEvery = "every:";

// The input of a layer is the output of the one before it.
double input_of(LayerCosts layers, double input_bytes, std::size_t layer) {
  return layer == 0 ? input_bytes : layers[layer - 1].output_bytes;
}

double saved_by(LayerCosts layers) {
  double bytes = 0;
  for (const LayerCost& layer : layers) bytes += layer.saved_bytes;
  return bytes;
}

std::size_t length_of(Recompute recompute) {
  PACELINE_CHECK(recompute.every > 0,
                 "segments of {} layers: choose a length first, by best_recompute()",
                 recompute.every);
  return static_cast<std::size_t>(recompute.every);
}

}  // namespace

Result<Recompute> Recompute::parse(std::string_view text) {
  if (text == "none") return Recompute{kNone};
  if (text == "full") return Recompute{1};
  if (text == "auto") return Recompute{kAutomatic};
  if (text.starts_with(kEvery)) {
    const auto every = number_in<int>(text.substr(kEvery.size()));
    if (every && *every >= 1) return Recompute{*every};
  }
  return Failure{Fault::misuse,
                 fmt::format("recompute \"{}\": give none, full, auto, or every:K with a whole "
                             "number of layers above 0",
                             text),
                 {}};
}

std::string Recompute::text() const {
  if (every == kNone) return "none";
  if (every == kAutomatic) return "auto";
  return every == 1 ? "full" : fmt::format("{}{}", kEvery, every);
}

double kept_bytes(LayerCosts layers, double input_bytes, Recompute recompute) {
  if (recompute.every == Recompute::kNone) return saved_by(layers);
  double bytes = 0;
  for (std::size_t first = 0; first < layers.size(); first += length_of(recompute))
    bytes += input_of(layers, input_bytes, first);
  return bytes;
}

double peak_bytes(LayerCosts layers, double input_bytes, Recompute recompute) {
  if (recompute.every == Recompute::kNone) return saved_by(layers);
  const std::size_t length = length_of(recompute);
  double inputs = 0, most = 0;
  for (std::size_t first = 0; first < layers.size(); first += length) {
    inputs += input_of(layers, input_bytes, first);
    const auto segment = layers.subspan(first, std::min(length, layers.size() - first));
    most = std::max(most, inputs + saved_by(segment));
  }
  return most;
}

Recompute best_recompute(LayerCosts layers, double input_bytes, double live_micro_batches) {
  Recompute best{1};
  double least = 0;
  for (int every = 1; every <= static_cast<int>(layers.size()); ++every) {
    const Recompute tried{every};
    const double bytes = (live_micro_batches - 1) * kept_bytes(layers, input_bytes, tried) +
                         peak_bytes(layers, input_bytes, tried);
    if (every > 1 && bytes >= least) continue;
    best = tried;
    least = bytes;
  }
  return best;
}

}  // namespace paceline::plan
