#include "paceline/core/collective/choice.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "paceline/core/base/check.h"
#include "paceline/core/collective/cost.h"

namespace paceline::collective {
namespace {

// Measured with bench_collective_exchange on two cores: pieces of 64-256 KiB differ by less than
// the spread.
constexpr std::size_t kSharedSegmentBytes = 512 << 10;
constexpr std::size_t kStreamSegmentBytes = 1 << 20;
constexpr std::size_t kShortestPiece = 16 << 10;

// What speaks for an algorithm. Many send the same messages on few ranks; of these it is the one
// that loses least of 16-bit sums, and then the one that needs least memory.
struct Bid {
  double seconds = std::numeric_limits<double>::infinity();
  bool rounds_once = false;
  int scratch_places = 0;

  bool is_better_than(const Bid& other) const {
    constexpr double kSame = 1e-9;  // sums of the same prices in another order
    if (seconds < other.seconds * (1 - kSame)) return true;
    if (seconds > other.seconds * (1 + kSame)) return false;
    if (rounds_once != other.rounds_once) return rounds_once;
    return scratch_places < other.scratch_places;
  }
};

}  // namespace

Choice::Choice(Catalogue catalogue, Determinism determinism, topology::Prices prices)
    : catalogue_(std::move(catalogue)), determinism_(determinism), prices_(prices) {}

const Algorithm& Choice::algorithm(Operation operation, std::string_view name, const Shape& shape,
                                   std::size_t bytes, bool one_rounding) {
  if (!name.empty()) return named(operation, name, shape, one_rounding);
  const std::lock_guard lock(mutex_);
  const int size_class = std::bit_width(bytes);
  const Algorithm*& chosen = chosen_[{operation, size_class, one_rounding}];
  if (chosen == nullptr)
    chosen = &cheapest(operation, shape, std::size_t{1} << size_class, one_rounding);
  return *chosen;
}

const Algorithm& Choice::named(Operation operation, std::string_view name, const Shape& shape,
                               bool one_rounding) const {
  const Algorithm* found = find(catalogue_, operation, name);
  if (found == nullptr) {
    std::string names;
    for (const Algorithm& a : catalogue_) {
      if (a.operation == operation) names += fmt::format("{}{}", names.empty() ? "" : ", ", a.name);
    }
    throw_misuse(
        fmt::format("no algorithm '{}' for {}: choose one of {}", name, name_of(operation), names));
  }
  PACELINE_CHECK(determinism_ == Determinism::fast || found->has_balanced_tree(shape),
                 "algorithm '{}' adds in another order than the balanced tree, which determinism "
                 "'reproducible' promises; run with "
                 "PACELINE_DETERMINISM=fast to use it",
                 name);
  PACELINE_CHECK(!one_rounding || found->rounds_once,
                 "algorithm '{}' rounds partial sums of 16-bit types, which determinism "
                 "'reproducible' rounds once; run with "
                 "PACELINE_DETERMINISM=fast to use it, or convert to f32",
                 name);
  PACELINE_CHECK(found->fits(shape), "algorithm '{}' of {} does not fit {} ranks", name,
                 name_of(operation), shape.ranks);
  return *found;
}

const Algorithm& Choice::cheapest(Operation operation, const Shape& shape, std::size_t bytes,
                                  bool one_rounding) const {
  const Algorithm* best = nullptr;
  Bid least;
  for (const Algorithm& a : catalogue_) {
    if (a.operation != operation || !a.fits(shape)) continue;
    if (determinism_ == Determinism::reproducible && !a.has_balanced_tree(shape)) continue;
    if (one_rounding && !a.rounds_once) continue;
    const Program program = a.build(shape);
    const Bid bid{.seconds = cost(a, shape, Partition::even(bytes, program.chunks), 1, prices_),
                  .rounds_once = a.rounds_once,
                  .scratch_places = program.scratch_places};
    if (!bid.is_better_than(least)) continue;
    best = &a;
    least = bid;
  }
  PACELINE_CHECK(best != nullptr, "no algorithm for {} with {} ranks", name_of(operation),
                 shape.ranks);
  return *best;
}

std::size_t piece_bytes(int chunks, bool shares_memory) {
  const std::size_t segment = shares_memory ? kSharedSegmentBytes : kStreamSegmentBytes;
  return std::max(kShortestPiece, segment / static_cast<std::size_t>(std::max(1, chunks)));
}

}  // namespace paceline::collective
