#include "paceline/core/collective/proof/symbols.h"

#include <bit>
#include <numeric>

#include "paceline/core/collective/building/balanced_tree.h"

namespace paceline::collective {

Symbols::Symbols(int ranks)
    : ranks_(ranks),
      words_((static_cast<std::size_t>(ranks) + 63) / 64),
      sums_(static_cast<std::size_t>(ranks)),
      held_(static_cast<std::size_t>(ranks) * words_) {
  for (Id rank = 0; rank < ranks; ++rank) {
    held_[word(rank, static_cast<std::size_t>(rank) / 64)] = std::uint64_t{1} << (rank % 64);
  }
}

Symbols::Id Symbols::sum(Id left, Id right) {
  const auto key = static_cast<std::uint64_t>(left) << 32 | static_cast<std::uint64_t>(right);
  const auto [found, is_new] = ids_.try_emplace(key, static_cast<Id>(sums_.size()));
  if (is_new) {
    sums_.push_back({left, right});
    for (std::size_t i = 0; i < words_; ++i) {
      held_.push_back(held_[word(left, i)] | held_[word(right, i)]);
    }
  }
  return found->second;
}

Symbols::Id Symbols::balanced() {
  std::vector<Id> leaves(static_cast<std::size_t>(ranks_));
  std::iota(leaves.begin(), leaves.end(), 0);
  return balanced_sum(leaves, [this](Id left, Id right) { return sum(left, right); });
}

std::optional<int> Symbols::shared_rank(Id left, Id right) const {
  for (std::size_t i = 0; i < words_; ++i) {
    const std::uint64_t both = held_[word(left, i)] & held_[word(right, i)];
    if (both != 0) return static_cast<int>(i) * 64 + std::countr_zero(both);
  }
  return std::nullopt;
}

bool Symbols::is_whole(Id id) const {
  int ranks = 0;
  for (std::size_t i = 0; i < words_; ++i) ranks += std::popcount(held_[word(id, i)]);
  return ranks == ranks_;
}

std::string Symbols::text(Id id) const {
  std::string text;
  append(id, text);
  return text;
}

void Symbols::append(Id id, std::string& text) const {
  if (id < ranks_) {
    text += std::to_string(id);
    return;
  }
  const Sum& sum = sums_[static_cast<std::size_t>(id)];
  text += '(';
  append(sum.left, text);
  text += '+';
  append(sum.right, text);
  text += ')';
}

}  // namespace paceline::collective
