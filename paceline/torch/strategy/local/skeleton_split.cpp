#include "paceline/torch/strategy/local/skeleton_split.h"

#include <torch/torch.h>

#include <algorithm>
#include <limits>

#include "paceline/core/base/seed.h"

namespace paceline::strategy {
namespace {

constexpr std::uint64_t kSeedOfSplits = 0x51de;  // any; the same on all ranks

at::Tensor over_mean(const at::Tensor& values) {
  const at::Tensor magnitude = values.abs().to(at::kDouble);
  return magnitude / std::max(magnitude.mean().item<double>(), 1e-30);
}

}  // namespace

at::Tensor skeleton_core(const at::Tensor& weights, const at::Tensor& gradient,
                         const at::Tensor& always, std::int64_t count) {
  at::Tensor importance = over_mean(weights) + over_mean(gradient);
  importance.index_fill_(0, always, std::numeric_limits<double>::infinity());
  const at::Tensor order = at::argsort(importance, /*stable=*/true, /*dim=*/0, /*descending=*/true);
  return std::get<0>(order.slice(0, 0, std::max(count, always.numel())).sort());
}

at::Tensor explored_links(const at::Tensor& core, std::int64_t links, std::int64_t round, int rank,
                          std::int64_t count) {
  at::Tensor is_rest = at::ones({links}, at::kBool);
  is_rest.index_fill_(0, core, false);
  const at::Tensor rest = is_rest.nonzero().flatten();
  const auto seed =
      mix(mix(kSeedOfSplits, static_cast<std::uint64_t>(round)), static_cast<std::uint64_t>(rank));
  at::Generator generator = at::detail::createCPUGenerator(seed);
  const at::Tensor drawn = at::randperm(rest.numel(), generator).slice(0, 0, count);
  return std::get<0>(rest.index_select(0, drawn).sort());
}

}  // namespace paceline::strategy
