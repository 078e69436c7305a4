#include "paceline/torch/replica/watch/wait_watch.h"

#include <utility>

#include "paceline/core/base/base.h"

namespace paceline::replica {

WaitWatch::WaitWatch(Communicator& group)
    : group_(group), machine_(group.rank(), group.size()), run_(group, machine_) {}

// A verdict is thrown in place of what it ends. Calls that nobody watches end with it, too.
void WaitWatch::throw_verdict() const {
  auto verdict = machine_.verdict();
  if (!verdict) return;
  verdict->what +=
      ": the ranks do not do the same. All of them make as many forward and backward passes in a "
      "step, and evaluate alike; under DataParallel::gathered() one rank may evaluate alone";
  constexpr std::chrono::milliseconds kToHear{200};
  try {  // The others hear of the verdict before the end of this rank ends their calls.
    run_.wait_within(
        "the other ranks to hear why", [] { return false; }, kToHear);
  } catch (const Error&) {  // that time has passed, or all has ended
  }
  group_.abort(verdict->what);
  throw Error(*std::move(verdict));
}

bool WaitWatch::is_soon_over(const Work& work) const {
  try {
    work.wait(Deadline::in(kPatience));
  } catch (const Error&) {
    if (!work.done()) return false;
    throw_verdict();
    throw;
  }
  return true;
}

void WaitWatch::wait_long(const Work& work, Lane lane, std::int64_t call, std::string where) {
  WaitingPlace place{.lane = static_cast<std::uint32_t>(lane), .call = call};
  place.calls.assign(calls_.begin(), calls_.end());
  place.where = std::move(where);
  run_.tell(StandstillMachine::waits(place));
  constexpr std::chrono::hours kNever{24 * 365};  // the call has a deadline of its own
  try {
    run_.wait_within(
        "the other ranks", [&] { return work.done() || machine_.verdict(); }, kNever);
    throw_verdict();
    work.wait();
  } catch (const Error&) {
    throw_verdict();
    throw;
  }
}

}  // namespace paceline::replica
