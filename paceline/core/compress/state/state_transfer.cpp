#include "paceline/core/compress/state/state_transfer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "paceline/core/base/check.h"
#include "paceline/core/base/chunk.h"
#include "paceline/core/compress/averaging/sign_chunks.h"

namespace paceline::compress {
namespace {

using Sharing = StateView::Sharing;

constexpr std::string_view kTransferRemedy =
    "; give it what it was saved with, or leave its item of the checkpoint out "
    "(CheckpointOptions::ignore): then it begins with zeros";

Failure differs(std::string what) {
  return {Fault::misuse,
          fmt::format("the saved state of a compression {}{}", what, kTransferRemedy),
          {}};
}

// Elements [begin, end) of a tensor.
struct Run {
  std::size_t begin = 0, end = 0;
  bool empty() const { return begin >= end; }
};
Run common(const Run& a, const Run& b) {
  return {std::max(a.begin, b.begin), std::min(a.end, b.end)};
}
Run run_of(const LivePart& part) {
  return {part.begin, part.begin + part.part.elements()};
}
Run run_of(const SavedValues& saved) {
  return {saved.begin, saved.begin + saved.elements()};
}

bool is_same_part(const SavedValues& saved, const LivePart& part) {
  return saved.tensor == part.tensor && saved.begin == part.begin && saved.rows == part.part.rows &&
         saved.columns == part.part.columns;
}

bool is_same(const SavedValues& saved, const StateView& view) {
  return saved.name == view.name && saved.sharing == view.sharing;
}

// Tells whether the view has a value for each element of its part.
bool is_elementwise(const LivePart& part, const StateView& view) {
  return view.values.size() == part.part.elements() && view.sharing != Sharing::chunk;
}

const float* values_of(const SavedValues& saved, std::vector<float>& aligned) {
  aligned.resize(saved.values.size() / sizeof(float));
  if (!aligned.empty()) std::memcpy(aligned.data(), saved.values.data(), saved.values.size());
  return aligned.data();
}

// Copies a part's values whole. A factor is stored column by column, so one with another number of
// columns keeps those that both have.
void copy_whole(const SavedValues& saved, const LivePart& part) {
  for (const StateView& view : part.views) {
    const bool is_factor = view.sharing == Sharing::equal && !is_elementwise(part, view);
    if (!is_same(saved, view) || (view.values.size_bytes() != saved.values.size() && !is_factor))
      continue;
    const std::size_t bytes = std::min(view.values.size_bytes(), saved.values.size());
    std::ranges::copy(saved.values.first(bytes), std::as_writable_bytes(view.values).begin());
  }
}

void copy_elements(const SavedValues& saved, std::span<const LivePart> parts) {
  std::vector<float> aligned;
  const float* const values = values_of(saved, aligned);
  for (const LivePart& part : parts) {
    const Run run = common(run_of(saved), run_of(part));
    if (part.tensor != saved.tensor || run.empty()) continue;
    for (const StateView& view : part.views) {
      if (!is_same(saved, view) || !is_elementwise(part, view)) continue;
      std::copy(values + (run.begin - saved.begin), values + (run.end - saved.begin),
                view.values.begin() + static_cast<std::ptrdiff_t>(run.begin - part.begin));
    }
  }
}

// The values are multiplied by `ranks` because the mean counts a rank's residual by 1 / ranks, but
// an owner's in full.
void add_chunk(const SavedValues& saved, int rank, int ranks, std::span<const LivePart> parts) {
  std::vector<float> aligned;
  const float* const values = values_of(saved, aligned);
  const std::size_t begin = saved.begin + first_element_of(saved.elements(), ranks, rank);
  for (const LivePart& part : parts) {
    const Run run = common({begin, begin + aligned.size()}, run_of(part));
    if (part.tensor != saved.tensor || run.empty()) continue;
    for (const StateView& view : part.views) {
      if (view.sharing != Sharing::own || view.name != "residual") continue;
      for (std::size_t i = run.begin; i < run.end; ++i)
        view.values[i - part.begin] += static_cast<float>(ranks) * values[i - begin];
    }
  }
}

Result<> check_compressions(const SavedState& state, std::span<const LivePart> parts) {
  for (const SavedValues& saved : state.values) {
    for (const LivePart& part : parts) {
      if (part.tensor != saved.tensor || common(run_of(saved), run_of(part)).empty() ||
          part.compression == saved.compression)
        continue;
      return differs(fmt::format("is of '{}' where tensor {} is compressed by '{}'",
                                 saved.compression, saved.tensor, part.compression));
    }
  }
  return Done();
}

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

std::vector<SavedValues> saved_values_of(std::span<const LivePart> parts) {
  std::vector<SavedValues> all;
  for (const LivePart& part : parts) {
    for (const StateView& view : part.views) {
      all.push_back({.tensor = part.tensor,
                     .begin = part.begin,
                     .rows = part.part.rows,
                     .columns = part.part.columns,
                     .compression = std::string(part.compression),
                     .sharing = view.sharing,
                     .name = std::string(view.name),
                     .values = std::as_bytes(view.values)});
    }
  }
  return all;
}

Result<> check_fits(const SavedState& state, int rank, int ranks,
                    std::span<const std::size_t> elements) {
  if (state.elements.size() != elements.size()) {
    return differs(fmt::format("is of a model of {} tensors, and this one has {}",
                               state.elements.size(), elements.size()));
  }
  for (std::size_t i = 0; i < elements.size(); ++i) {
    if (state.elements[i] == elements[i]) continue;
    return differs(fmt::format("has tensor {} of {} elements, and in this model it has {}", i,
                               state.elements[i], elements[i]));
  }
  if (state.values.empty() || (state.rank == rank && state.ranks == ranks)) return Done();
  return differs(
      fmt::format("is that of rank {} of {}, and this is rank {} of {}: each rank has "
                  "a state of its own",
                  state.rank, state.ranks, rank, ranks));
}

Result<> check_is_of(const SavedState& state, std::string_view compression) {
  for (const SavedValues& saved : state.values) {
    if (saved.compression != compression)
      return differs(
          fmt::format("is of '{}', and this one is '{}'", saved.compression, compression));
  }
  return Done();
}

Result<> restore(const SavedState& state, std::span<const LivePart> parts) {
  if (const auto right = check_compressions(state, parts); !right) return right;
  for (const LivePart& part : parts) {
    for (const StateView& view : part.views) std::ranges::fill(view.values, 0.0f);
  }
  for (const SavedValues& saved : state.values) {
    const auto same = std::ranges::find_if(
        parts, [&](const LivePart& part) { return is_same_part(saved, part); });
    if (same != parts.end()) copy_whole(saved, *same);
    else if (saved.sharing == Sharing::chunk) add_chunk(saved, state.rank, state.ranks, parts);
    else if (saved.values.size() == saved.elements() * sizeof(float)) copy_elements(saved, parts);
  }
  return Done();
}

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
