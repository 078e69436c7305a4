#include "paceline/linear/solver/sample_order.h"

#include "paceline/core/base/seed.h"

namespace paceline::linear {

std::vector<std::size_t> SampleOrder::of_pass(std::size_t samples, std::int64_t pass) const {
  if (!is_drawn) return permutation(samples, seed_of(seed, rank, pass));
  SeededNumbers numbers(seed_of(seed, rank, pass));
  std::vector<std::size_t> drawn(samples);
  for (std::size_t& one : drawn) one = numbers.below(samples);
  return drawn;
}

Setting order_setting() {
  return {.name = "order",
          .standard = 0,
          .least = 0,
          .most = 1,
          .meaning = "samples of a pass: each once, or independent draws",
          .whole = true,
          .words = {"permutation", "draws"}};
}

SampleOrder order_in(const Settings& settings, std::uint64_t seed, int rank) {
  return {settings.on("order"), seed, rank};
}

}  // namespace paceline::linear
