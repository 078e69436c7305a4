// Saves and restores the state of a gradient path that outlives a step.
#include <algorithm>

#include "paceline/core/base/check.h"
#include "paceline/core/schedule/path/gradient_path.h"

namespace paceline::schedule {
std::vector<compress::LivePart> GradientPath::live_parts(std::span<const std::uint32_t> numbers) {
  std::vector<compress::LivePart> live;
  for (const Coded& coded : coded_) {
    if (coded.averaging == nullptr) continue;
    const auto views = coded.averaging->state();
    for (const PlacedPart& placed : coded.parts) {
      live.push_back({numbers[static_cast<std::size_t>(placed.place)],
                      placed.begin,
                      placed.part,
                      coded.compression,
                      {}});
      std::ranges::copy_if(views, std::back_inserter(live.back().views),
                           [&](const auto& view) { return view.tensor == placed.part.tensor; });
    }
  }
  return live;
}

std::vector<std::size_t> GradientPath::elements_by(std::span<const std::uint32_t> numbers) const {
  const auto tensors = static_cast<std::size_t>(dispatch_.plan().groups.back().end);
  PACELINE_CHECK(numbers.size() == tensors, "{} numbers for {} tensors", numbers.size(), tensors);
  std::vector<std::size_t> elements(numbers.size());
  for (std::size_t place = 0; place < numbers.size(); ++place)
    elements.at(numbers[place]) = dispatch_.elements_at(static_cast<int>(place));
  return elements;
}

std::vector<std::byte> GradientPath::state(std::span<const std::uint32_t> numbers) {
  const std::lock_guard lock(mutex_);
  compress::SavedState state{.rank = place_.rank,
                             .ranks = place_.ranks,
                             .elements = elements_by(numbers),
                             .values = saved_values_of(live_parts(numbers))};
  for (const Coded& coded : coded_) state.step = std::max(state.step, coded.step);
  return bytes_of(state);
}

void GradientPath::restore(Bytes bytes, std::span<const std::uint32_t> numbers) {
  const std::lock_guard lock(mutex_);
  const auto state = compress::saved_state_of(bytes).value();
  check_fits(state, place_.rank, place_.ranks, elements_by(numbers)).value();
  compress::restore(state, live_parts(numbers)).value();
  for (Coded& coded : coded_) coded.step = state.step;
}

}  // namespace paceline::schedule
