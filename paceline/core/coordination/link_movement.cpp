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
  for (int member = 0; member < generation.identity().size; ++member) {
    const transport::Link* const link = generation.link(member);
    before_.push_back(link == nullptr ? transport::LinkProgress() : link->progress());
  }
}

void LinkMovement::excuse(Awaited& awaited) const {
  const auto time = Clock::now() - begin_;
  for (const int member : std::set(awaited.silent())) {
    const transport::Link* const link = links_.generation->link(member);
    if (link == nullptr || before_.empty()) continue;
    const transport::LinkProgress now = link->progress();
    const transport::LinkProgress& before = before_[static_cast<std::size_t>(member)];
    if (now.unsent > 0 && now.sent > before.sent)
      awaited.is_being_sent(member, {now.unsent, a_second(now.sent - before.sent, time)});
    else if (now.received > before.received) awaited.is_sending(member);
  }
}

}  // namespace paceline::coordination
