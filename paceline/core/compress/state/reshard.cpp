#include "paceline/core/compress/state/reshard.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "paceline/core/base/check.h"
#include "paceline/core/base/chunk.h"
#include "paceline/core/compress/averaging/sign_chunks.h"
#include "paceline/core/compress/state/saved_state.h"

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

// Whether two ranks keep the same thing, each for itself.
bool is_same_kind(const SavedValues& a, const SavedValues& b) {
  return a.tensor == b.tensor && a.begin == b.begin && a.rows == b.rows && a.columns == b.columns &&
         a.compression == b.compression && a.sharing == b.sharing && a.name == b.name &&
         (a.sharing == StateView::Sharing::chunk || a.values.size() == b.values.size());
}

// Nothing: the states fit together.
std::optional<Failure> misfit_of(std::span<const SavedState> states) {
  const SavedState& first = states.front();
  for (std::size_t r = 1; r < states.size(); ++r) {
    const SavedState& other = states[r];
    if (other.step == first.step && other.elements == first.elements &&
        std::ranges::equal(other.values, first.values, is_same_kind))
      continue;
    return Failure{Fault::io,
                   fmt::format("the saved state of a compression is not the same on rank {} as on "
                               "rank 0; load another checkpoint",
                               r),
                   {}};
  }
  return std::nullopt;
}

std::vector<float> floats_of(Bytes bytes) {
  std::vector<float> floats(bytes.size() / sizeof(float));
  if (!floats.empty()) std::memcpy(floats.data(), bytes.data(), bytes.size());
  return floats;
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

Result<std::vector<std::byte>> resharded(std::span<const std::vector<std::byte>> former, int ranks,
                                         int rank) {
  const bool is_empty =
      std::ranges::all_of(former, [](const auto& bytes) { return bytes.empty(); });
  if (is_empty) return std::vector<std::byte>();
  std::vector<SavedState> states;
  for (const std::vector<std::byte>& bytes : former) {
    auto state = saved_state_of(bytes);
    if (!state) return state.error();
    states.push_back(*std::move(state));
  }
  if (auto misfit = misfit_of(states)) return *std::move(misfit);
  SavedState now = states.front();
  now.rank = rank;
  now.ranks = ranks;
  std::vector<std::vector<float>> memory;
  for (std::size_t i = 0; i < now.values.size(); ++i) {
    std::vector<std::vector<float>> all;
    for (const SavedState& state : states) all.push_back(floats_of(state.values[i].values));
    memory.push_back(resharded(now.values[i].sharing, all, ranks, rank));
  }
  for (std::size_t i = 0; i < now.values.size(); ++i)
    now.values[i].values = std::as_bytes(std::span(memory[i]));
  return bytes_of(now);
}

}  // namespace paceline::compress
