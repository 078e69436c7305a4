#include "paceline/core/server/machine/range_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace paceline::server {

RangeState::RangeState(const TableShape& shape, std::size_t range)
    : shape_(&shape), range_(static_cast<std::uint32_t>(range)), value_(shape, range) {
  for (const int worker : shape.members.workers) members_[worker] = {};
}

bool RangeState::is_waking() const {
  return std::ranges::any_of(members_, [](const auto& one) { return one.second.is_waking; });
}

void RangeState::apply(RangeEntry entry) {
  ++top_;
  const auto push = [&] {
    decide(entry.pushes.front());
    return Push{entry.pushes.front(), std::move(entry.settings), std::move(entry.values)};
  };
  switch (entry.kind) {
    case EntryKind::assign:
      value_.assign(entry.values, entry.clock);
      has_values_ = true;
      break;
    case EntryKind::join:
      members_.try_emplace(entry.member);
      value_.join(entry.member);
      break;
    case EntryKind::raise: value_.raise(entry.member, entry.clock); break;
    case EntryKind::leave: leave(entry.member); break;
    case EntryKind::quiesce:
      members_.at(entry.member).quiet = static_cast<std::uint32_t>(entry.clock);
      value_.quiesce(entry.member);
      break;
    case EntryKind::wake: wake(); break;
    case EntryKind::awake: members_.at(entry.member).is_waking = false; break;
    case EntryKind::show: value_.take(push()); break;
    case EntryKind::fold: folded_.push_back(push()); break;
    case EntryKind::drop: decide(entry.pushes.front(), true); break;
    case EntryKind::late:
      decide(entry.pushes.front());
      value_.apply_late(entry.pushes.front(), entry.values, entry.settings);
      break;
    case EntryKind::step: close_step(entry); break;
    case EntryKind::round: close_round(entry); break;
  }
}

// Pushes of a worker are decided in their order.
void RangeState::decide(const PushFacts& push, bool dropped) {
  Member& member = members_.at(push.worker);
  member.decided = push.sequence;
  member.last_stamp = push.stamp;
  member.dropped += dropped ? 1 : 0;
}

// Its pushes that have been decided stay.
void RangeState::leave(int worker) {
  gone_.insert(worker);
  members_.erase(worker);
  value_.leave(worker);
}

void RangeState::wake() {
  value_.wake();
  for (auto& [worker, member] : members_) {
    member.last_quiet = std::exchange(member.quiet, 0);
    member.is_waking = true;
  }
}

// Pushes of earlier stamps were decided when they were folded into this step.
void RangeState::close_step(const RangeEntry& entry) {
  for (const PushFacts& push : entry.pushes)
    if (push.stamp == value_.clock()) decide(push);
  folded_.clear();
  value_.close_step(entry.pushes, entry.total, entry.values, entry.settings);
}

// Its pushes were decided when they were shown.
void RangeState::close_round(const RangeEntry& entry) {
  std::vector<int> workers;
  for (const PushFacts& push : entry.pushes) workers.push_back(push.worker);
  value_.close_round(workers);
}

// --- entries of other processes ------------------------------------------------------------------

std::string RangeState::complaint(const RangeEntry& entry) const {
  const auto wrong = [&](std::string_view why) {
    return fmt::format("entry {} of range {}, '{}', {}", top_ + 1, range_, name_of(entry.kind),
                       why);
  };
  // A member may end before it has joined; it never does then.
  const bool must_be_there = entry.is_of_member() && entry.kind != EntryKind::join &&
                             entry.kind != EntryKind::leave && entry.kind != EntryKind::wake;
  if (must_be_there && !has(entry.member)) return wrong("is of a member that is not there");
  const bool is_again =
      entry.kind == EntryKind::join && (has(entry.member) || has_left(entry.member));
  const bool is_quiet_again = entry.kind == EntryKind::quiesce && value_.is_quiet(entry.member);
  if (is_again || is_quiet_again) return wrong("comes twice for its member");
  if (entry.kind == EntryKind::wake && !value_.are_all_quiet())
    return wrong("comes before all are quiet");
  if (std::string why = complaint_of_pushes(entry); !why.empty()) return wrong(why);
  if (std::string why = complaint_of_values(entry); !why.empty()) return wrong(why);
  return {};
}

bool RangeState::is_next_of(const PushFacts& push) const {
  const auto found = members_.find(push.worker);
  return found != members_.end() && push.sequence == found->second.decided + 1 &&
         push.stamp > found->second.last_stamp;
}

std::string RangeState::complaint_of_pushes(const RangeEntry& entry) const {
  if (entry.kind == EntryKind::round) return complaint_of_round(entry);
  const bool is_step = entry.kind == EntryKind::step;
  const bool is_push = entry.kind >= EntryKind::show && !is_step;
  const std::int64_t clock = value_.clock();
  if (is_push != (entry.pushes.size() == 1) && !is_step) return "has not the pushes of its kind";
  const bool fits_pacing =
      entry.kind == EntryKind::show ? !shape_->pacing.by_steps : shape_->pacing.by_steps;
  if ((is_push || is_step) && !fits_pacing) return "does not fit the table's synchrony";
  for (const PushFacts& push : entry.pushes) {
    const bool is_decided_now = is_push || push.stamp == clock;
    if (is_decided_now && !is_next_of(push))
      return fmt::format("is not the next push of member {}", push.worker);
    const bool is_late = push.stamp < clock;
    if (entry.kind != EntryKind::show && (is_step ? push.stamp > clock : !is_late))
      return "has a push of another step";
  }
  return {};
}

std::string RangeState::complaint_of_round(const RangeEntry& entry) const {
  if (!shape_->pacing.rounds) return "does not fit the table's synchrony";
  for (const PushFacts& push : entry.pushes)
    if (!value_.waits_for_round(push.worker))
      return fmt::format("has no contribution of member {}", push.worker);
  return {};
}

std::string RangeState::complaint_of_values(const RangeEntry& entry) const {
  const std::size_t bytes = shape_->ranges[range_].elements * shape_->element_bytes();
  const std::size_t slots = shape_->slots();
  const bool is_assigned = entry.kind == EntryKind::assign;
  if (is_assigned && (has_values_ || entry.clock < 0 || entry.clock > RuleState::kMostSteps))
    return "has first values where there are some, or a state of too many steps";
  const bool needs = entry.kind == EntryKind::show || entry.kind == EntryKind::fold || is_assigned;
  const bool may = needs || entry.kind == EntryKind::late || entry.kind == EntryKind::step;
  const bool fits =
      entry.values.size() == bytes || (is_assigned && entry.values.size() == bytes * (1 + slots));
  if (entry.values.empty() ? needs : !may || !fits)
    return fmt::format("has {} bytes of values", entry.values.size());
  if (!entry.values.empty() && !is_assigned &&
      entry.settings.size() != shape_->rule.entry.settings.size())
    return fmt::format("has {} settings", entry.settings.size());
  return {};
}

// --- as bytes ------------------------------------------------------------------------------------

void RangeState::write(transport::WireWriter& writer) const {
  writer.integer(top_).integer(static_cast<std::uint8_t>(has_values_));
  writer.integer(static_cast<std::uint32_t>(members_.size()))
      .integer(static_cast<std::uint32_t>(gone_.size()))
      .integer(static_cast<std::uint32_t>(folded_.size()));
  for (const auto& [worker, member] : members_)
    writer.integer(static_cast<std::int32_t>(worker))
        .integer(member.decided)
        .integer(member.dropped)
        .integer(member.last_stamp)
        .integer(member.quiet)
        .integer(member.last_quiet)
        .integer(static_cast<std::uint8_t>(member.is_waking));
  for (const int worker : gone_) writer.integer(static_cast<std::int32_t>(worker));
  for (const Push& push : folded_) write_push(push, writer);
  value_.write(writer);
}

bool RangeState::read(transport::WireReader& reader) {
  constexpr std::size_t kMemberBytes = 33;
  const std::size_t bytes = shape_->ranges[range_].elements * shape_->element_bytes();
  top_ = reader.integer<std::uint64_t>();
  has_values_ = reader.integer<std::uint8_t>() != 0;
  const auto members = reader.integer<std::uint32_t>(), gone = reader.integer<std::uint32_t>(),
             folded = reader.integer<std::uint32_t>();
  if (reader.rest().size() / kMemberBytes < members) return false;
  members_.clear();
  for (std::uint32_t i = 0; i < members; ++i) {
    Member& member = members_[reader.integer<std::int32_t>()];
    member.decided = reader.integer<std::uint64_t>();
    member.dropped = reader.integer<std::uint32_t>();
    member.last_stamp = reader.integer<std::int64_t>();
    member.quiet = reader.integer<std::uint32_t>();
    member.last_quiet = reader.integer<std::uint32_t>();
    member.is_waking = reader.integer<std::uint8_t>() != 0;
  }
  if (reader.rest().size() / sizeof(std::int32_t) < gone) return false;
  gone_.clear();
  for (std::uint32_t i = 0; i < gone; ++i) gone_.insert(reader.integer<std::int32_t>());
  if (reader.rest().size() / kEntryHeader < folded) return false;
  folded_.assign(folded, {});
  if (!std::ranges::all_of(folded_, [&](Push& push) { return read_push(reader, bytes, push); }) ||
      !value_.read(reader))
    return false;
  const auto& clocks = value_.clocks();
  return members_.size() == members && clocks.size() == members_.size() &&
         std::ranges::equal(
             clocks, members_, {}, [](const auto& one) { return one.first; },
             [](const auto& one) { return one.first; });
}

}  // namespace paceline::server
