#include "paceline/core/server/sparse/share_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace paceline::server {

using Kind = ShareChange::Kind;

ShareState::ShareState(const SparseShape& shape, std::size_t share)
    : shape_(&shape), share_(share), value_(shape) {
  for (const int worker : shape.members.workers) members_[worker] = {};
}

void ShareState::apply(ShareChange change) {
  ++top_;
  for (const ShareChange::Decided& push : change.decided) {
    Member& member = members_.at(push.worker);
    member.decided = push.sequence;
    member.last_stamp = push.stamp;
  }
  switch (change.kind) {
    case Kind::leave: members_.erase(change.worker); break;
    case Kind::rest: members_.at(change.worker).resting = change.number; break;
    case Kind::wake:
      for (auto& [worker, member] : members_) member.last_rest = std::exchange(member.resting, 0);
      break;
    case Kind::store: members_.at(change.worker).stored = change.number; break;
    case Kind::step:
    case Kind::taken: break;
  }
  value_.apply(std::move(change));
}

// --- changes of other processes ------------------------------------------------------------------

std::string ShareState::complaint(const ShareChange& change) const {
  std::string_view why = complaint_of_member(change);
  if (why.empty()) why = complaint_of_pushes(change);
  return why.empty() ? ""
                     : fmt::format("change {} of share {}, '{}', {}", top_ + 1, share_,
                                   name_of(change.kind), why);
}

std::string_view ShareState::complaint_of_member(const ShareChange& change) const {
  if (change.kind == Kind::wake) return value_.do_all_rest() ? "" : "comes before all members rest";
  if (change.kind == Kind::step) return "";
  if (!has(change.worker)) return "is of a member that is not there";
  const Member& member = members_.at(change.worker);
  if (change.kind == Kind::rest && (value_.rests(change.worker) || change.number == 0))
    return "comes twice for its member, or has no number";
  if (change.kind == Kind::store && change.number <= member.stored)
    return "comes twice for its member";
  return "";
}

std::string_view ShareState::complaint_of_pushes(const ShareChange& change) const {
  const bool is_step = change.kind == Kind::step, is_taken = change.kind == Kind::taken;
  const bool is_store = change.kind == Kind::store;
  if ((is_step && !shape_->pacing.by_steps) || (is_taken && shape_->pacing.by_steps))
    return "does not fit the table's synchrony";
  if (is_taken ? change.decided.size() != 1 || change.decided.front().worker != change.worker
               : !is_step && !change.decided.empty())
    return "decides other pushes than those of its kind";
  int last = -1;
  for (const ShareChange::Decided& push : change.decided) {
    const auto found = members_.find(push.worker);
    if (found == members_.end() || push.worker <= last ||
        push.sequence != found->second.decided + 1 || push.stamp <= found->second.last_stamp)
      return "decides a push that is not the next one of its member";
    if (is_step && push.stamp != value_.clock()) return "has a push of another step";
    if (push.stamp < 0 || push.stamp > RuleState::kMostSteps) return "has a push of no clock";
    last = push.worker;
  }
  if (change.pushes.size() != (is_step || is_taken || is_store ? 1U : 0U))
    return "has not the rows of its kind";
  const std::size_t each = shape_->value_bytes() + (is_store ? shape_->state_bytes() : 0);
  for (const SparsePush& push : change.pushes)
    if (!fits(push.rows, *shape_, share_, each) || (!is_store && !ascend(*push.rows.ids)))
      return "has other rows than the share";
  if (!std::ranges::all_of(change.pushes, [&](const SparsePush& push) {
        return push.counts.empty() || (is_step && counts_fit(push, change.decided.size()));
      }))
    return "counts other pushes than it decides";
  if (is_store && (change.rule_steps < 0 || change.rule_steps > RuleState::kMostSteps))
    return "stores rows of no number of steps";
  return "";
}

bool ShareState::counts_fit(const SparsePush& mean, std::size_t pushes) const {
  return shape_->counts_pushes() && mean.counts.size() == mean.rows.ids->size() &&
         std::ranges::all_of(mean.counts,
                             [&](std::uint32_t one) { return one > 0 && one <= pushes; });
}

// --- as bytes ------------------------------------------------------------------------------------

void ShareState::write(transport::WireWriter& writer) const {
  writer.integer(top_).integer(static_cast<std::uint32_t>(members_.size()));
  for (const auto& [worker, member] : members_)
    writer.integer(static_cast<std::int32_t>(worker))
        .integer(member.decided)
        .integer(member.last_stamp)
        .integer(member.resting)
        .integer(member.last_rest)
        .integer(member.stored);
  value_.write(writer);
}

bool ShareState::read(transport::WireReader& reader) {
  constexpr std::size_t kMemberBytes = 44;
  top_ = reader.integer<std::uint64_t>();
  const auto members = reader.integer<std::uint32_t>();
  if (reader.rest().size() / kMemberBytes < members) return false;
  members_.clear();
  for (std::uint32_t i = 0; i < members; ++i) {
    Member& member = members_[reader.integer<std::int32_t>()];
    member.decided = reader.integer<std::uint64_t>();
    member.last_stamp = reader.integer<std::int64_t>();
    member.resting = reader.integer<std::uint64_t>();
    member.last_rest = reader.integer<std::uint64_t>();
    member.stored = reader.integer<std::uint64_t>();
  }
  if (!value_.read(reader, share_)) return false;
  const auto worker_of = [](const auto& one) { return one.first; };
  return members_.size() == members &&
         std::ranges::equal(value_.clocks(), members_, {}, worker_of, worker_of) &&
         std::ranges::all_of(members_, [this](const auto& one) {
           return (one.second.resting > 0) == value_.rests(one.first);
         });
}

}  // namespace paceline::server
