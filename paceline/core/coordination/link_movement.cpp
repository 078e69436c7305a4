#include "paceline/core/coordination/link_movement.h"

#include <algorithm>
#include <set>

namespace paceline::coordination {
namespace {

std::uint64_t a_second(std::uint64_t bytes, Clock::duration time) {
  const double seconds = std::max(1e-3, std::chrono::duration<double>(time).count());
  return static_cast<std::uint64_t>(static_cast<double>(bytes) / seconds);
}

}  // namespace

void LinkMovement::begin() {
  membership::Generation& generation = *links_.generation;
  begin_ = Clock::now();
  before_.clear();
  const std::set<int>& late = generation.late_members();
  const int members = late.empty() ? generation.identity().size : *late.rbegin() + 1;
  for (int member = 0; member < members; ++member) {
    const transport::Link* const link = generation.link(member);
    before_.push_back(link == nullptr ? transport::LinkProgress() : link->progress());
  }
}

void LinkMovement::excuse(Awaited& awaited) const {
  const auto time = Clock::now() - begin_;
  for (const int member : std::set(awaited.silent())) {
    const transport::Link* const link = links_.generation->link(member);
    const auto place = static_cast<std::size_t>(member);
    if (link == nullptr || place >= before_.size()) continue;  // it may have come since
    const transport::LinkProgress now = link->progress();
    const transport::LinkProgress& before = before_[place];
    if (now.unsent > 0 && now.sent > before.sent)
      awaited.is_being_sent(member, {now.unsent, a_second(now.sent - before.sent, time)});
    else if (now.received > before.received) awaited.is_sending(member);
  }
}

}  // namespace paceline::coordination
