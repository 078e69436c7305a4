#include "paceline/core/collective/choice.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "paceline/core/base/check.h"
#include "paceline/core/collective/cost.h"

namespace paceline::collective {
namespace {

// Measured on two cores: pieces of 64-256 KiB differ by less than the spread.
constexpr std::size_t kSharedSegmentBytes = 512 << 10;
constexpr std::size_t kStreamSegmentBytes = 1 << 20;
constexpr std::size_t kShortestPiece = 16 << 10;

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

std::vector<std::string_view> Choice::names(Operation operation, const Shape& shape,
                                            bool one_rounding) const {
  std::vector<std::string_view> found;
  for (const Algorithm& a : catalogue_) {
    if (a.operation == operation && allows(a, shape, one_rounding)) found.push_back(a.name);
  }
  return found;
}

bool Choice::allows(const Algorithm& a, const Shape& shape, bool one_rounding) const {
  return a.fits(shape) && (!one_rounding || a.rounds_once) &&
         (determinism_ == Determinism::fast || a.has_balanced_tree(shape.ranks));
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
  PACELINE_CHECK(determinism_ == Determinism::fast || found->has_balanced_tree(shape.ranks),
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
  double best_cost = std::numeric_limits<double>::infinity();
  for (const Algorithm& a : catalogue_) {
    if (a.operation != operation || !allows(a, shape, one_rounding)) continue;
    const Program program = a.build(shape);
    const double price = cost(a, shape, Partition::even(bytes, program.chunks), 1, prices_);
    if (price < best_cost) {
      best = &a;
      best_cost = price;
    }
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
