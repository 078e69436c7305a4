#include "paceline/core/collective/call/assent.h"

#include "paceline/core/collective/building/balanced_tree.h"

namespace paceline::collective {

bool Assent::suits(const Request& request) {
  const Call& call = request.call;
  // The counts of an all_to_all differ from rank to rank, and are compared in pairs.
  const bool is_pairwise = call.operation == Operation::all_to_all && !call.counts.empty();
  return !request.by_engine && !call.weighted && call.note.empty() && !is_pairwise;
}

Assent::Assent(int rank, int ranks)
    : rank_(rank), ranks_(ranks), heard_(static_cast<std::size_t>(tree_levels(ranks))) {}

std::optional<Assent::Telling> Assent::next() {
  const bool is_last = told_ == heard_.size();
  if (is_last || (told_ > 0 && !heard_[told_ - 1])) return std::nullopt;
  const auto round = static_cast<std::uint32_t>(told_++);
  return Telling{place(1 << round), round};
}

bool Assent::hear(int peer, std::uint32_t round) {
  if (round >= heard_.size() || heard_[round] || peer != place(-(1 << round))) return false;
  heard_[round] = true;
  ++heard_count_;
  return true;
}

bool Assent::awaits(int peer) const {
  for (std::size_t round = 0; round < heard_.size(); ++round)
    if (!heard_[round] && peer == place(-(1 << round))) return true;
  return false;
}

}  // namespace paceline::collective
