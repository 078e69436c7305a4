#include "paceline/core/collective/group/late_sends.h"

#include <fmt/format.h>

#include <utility>

#include "paceline/core/collective/call/work_state.h"

namespace paceline::collective {

void LateSends::add(PointToPoint::Transfer send, std::shared_ptr<StagedCall> call) {
  const int peer = send.peer;
  by_peer_[peer].push_back({std::move(send), std::move(call)});
}

std::vector<PointToPoint::Transfer> LateSends::take_ready() {
  std::vector<PointToPoint::Transfer> ready;
  for (auto& [peer, sends] : by_peer_) {
    while (!sends.empty() && (sends.front().call == nullptr || sends.front().call->is_here())) {
      ready.push_back(std::move(sends.front().send));
      sends.pop_front();
    }
  }
  std::erase_if(by_peer_, [](const auto& sends) { return sends.second.empty(); });
  return ready;
}

Deadline LateSends::next_deadline() const {
  Deadline next;
  for (const auto& [peer, sends] : by_peer_) {
    for (const Late& late : sends) next = next.sooner(late.send.deadline);
  }
  return next;
}

std::optional<Failure> LateSends::overdue(Clock::time_point now) const {
  for (const auto& [peer, sends] : by_peer_) {
    for (const Late& late : sends) {
      if (!late.send.deadline.passed(now)) continue;
      const Late& first = sends.front();  // its input is not here: else it would be gone
      return Failure{Fault::timed_out,
                     fmt::format("in {} behind {}, for {} to copy the input to the host; look at "
                                 "what else was given to that device",
                                 late.send.work->description, first.send.work->description,
                                 first.call->device().name()),
                     {}};
    }
  }
  return std::nullopt;
}

void LateSends::failed(const Failure& why) {
  for (const auto& [peer, sends] : std::exchange(by_peer_, {})) {
    for (const Late& late : sends) late.send.work->finish(why);
  }
}

}  // namespace paceline::collective
