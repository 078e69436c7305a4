#include "paceline/core/compress/state/reshard.h"

#include "paceline/core/base/check.h"
#include "paceline/core/base/chunk.h"
#include "paceline/core/compress/averaging/sign_chunks.h"

namespace paceline::compress {
namespace {

// The former ranks are distributed by the chunk rule: with fewer ranks now, each takes several;
// with more, the last ones begin with zeros.
std::vector<float> merged(std::span<const std::vector<float>> former, int ranks, int rank) {
  std::vector<float> sum(former.front().size());
  for (std::size_t r = chunk_offset(former.size(), ranks, rank);
       r < chunk_offset(former.size(), ranks, rank + 1); ++r) {
    PACELINE_CHECK(former[r].size() == sum.size(), "residuals of {} and {} elements of one tensor",
                   sum.size(), former[r].size());
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += former[r][i];
  }
  scale(Dtype::f32, std::as_writable_bytes(std::span(sum)),
        ranks / static_cast<double>(former.size()));
  return sum;
}

}  // namespace

std::vector<float> resharded(StateView::Sharing sharing, std::span<const std::vector<float>> former,
                             int ranks, int rank) {
  PACELINE_CHECK(!former.empty() && rank >= 0 && rank < ranks,
                 "state of {} ranks for rank {} of {}", former.size(), rank, ranks);
  if (sharing == StateView::Sharing::equal) return former.front();
  if (sharing == StateView::Sharing::own) return merged(former, ranks, rank);
  std::vector<float> whole;
  for (const std::vector<float>& chunk : former)
    whole.insert(whole.end(), chunk.begin(), chunk.end());
  const auto begin = whole.begin();
  const auto at = [&](int owner) {
    return begin + static_cast<std::ptrdiff_t>(first_element_of(whole.size(), ranks, owner));
  };
  return {at(rank), at(rank + 1)};
}

}  // namespace paceline::compress
