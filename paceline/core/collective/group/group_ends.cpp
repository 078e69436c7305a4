// The ends of a group's operations that fail, and the reports while it waits.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "paceline/core/collective/call/work_state.h"
#include "paceline/core/collective/group/group.h"
#include "paceline/core/collective/staging/staged_call.h"

namespace paceline::collective {

namespace {

// A caller's stream that waits for the call goes on before its library gives up, which may wait for
// all streams of the device. Streams behind other calls go on when nobody uses the buffers any more.
void release_stream(const Request& request) {
  const bool has_library = request.route == Route::engine || request.route == Route::offered;
  if (request.staged && has_library) request.staged->release();
}

}  // namespace

void Group::failed(const Failure& why) {
  early_.clear();
  if (current_) release_stream(current_->request());
  std::ranges::for_each(queue_, release_stream);
  if (engine_) engine_->abandon();
  context_.posting.give_up();
  kernels_.give_up();
  board_.leave();
  if (current_) {
    current_->give_up();
    const auto work = current_->request().work;
    // It may be in the middle of one of its own methods: it ends when the driver is out of there.
    reactor_->post([dead = std::shared_ptr<ActiveOperation>(std::move(current_))] {});
    work->finish(why);
  }
  const auto queue = std::move(queue_);
  queue_.clear();
  for (const Request& request : queue) request.work->finish(why);
  staged_.failed(why);
  late_sends_.failed(why);
  point_to_point_.failed(why);
  note_activity();
}

void Group::departed(int) {
  check_departed();
}

void Group::check_departed() {
  int here = 0;
  for (int peer = 0; peer < members_.size(); ++peer) {
    if (!members_.has_departed(peer)) {
      ++here;
      continue;
    }
    std::string waiting = point_to_point_.waits_for(peer);
    if (waiting.empty() && current_ && std::ranges::count(current_->missing(), peer) > 0) {
      waiting = current_->description();
    }
    if (waiting.empty()) continue;
    if (auto lost = generation().loss_of(members_.world_rank(peer)))
      return generation().fail(*std::move(lost));
    return generation().fail(members_.failure(
        Fault::peer_lost,
        fmt::format("{} has left the job while {} waits for it in {}; all ranks must call the same "
                    "operations before they end. If it ran out of batches sooner than others: "
                    "DataParallel::join keeps ranks with different numbers of batches together",
                    members_.name(peer), members_.name(members_.rank()), waiting),
        {peer}));
  }
  const std::string waiting = here > 1 ? "" : point_to_point_.waits_for(kAnyRank);
  if (waiting.empty() || members_.size() == 1) return;
  generation().fail(
      members_.failure(Fault::peer_lost,
                       fmt::format("all other ranks have left the job while {} waits in {}",
                                   members_.name(members_.rank()), waiting),
                       {}));
}

void Group::abort(const std::shared_ptr<Group>& group, std::string reason) {
  transport::Reactor& reactor = *group->reactor_;
  if (!reactor.is_of_this_process()) return;
  const auto fail = [group, reason = std::move(reason)] {
    const Members& members = group->members_;
    group->generation().fail(
        members.failure(Fault::cancelled,
                        fmt::format("{} aborted group '{}': {}", members.name(members.rank()),
                                    group->name_, reason),
                        {members.rank()}));
  };
  // An operation's callback is called in the midst of its end.
  if (reactor.driven_by_this_thread()) reactor.post(fail);
  else reactor.run(fail);
}

void Group::unwind() {
  if (!reactor_->is_of_this_process()) return;
  const auto thrown = failure_in_flight();
  reactor_->run([this, &thrown] {
    if (is_busy()) end_unwound(thrown);
  });
}

void Group::open() {
  reactor_->run([this] {
    generation().subscribe(id_, this);
    if (share_memory_) board_.open();
  });
}

void Group::close(bool unwinds) {
  const auto thrown = unwinds ? failure_in_flight() : std::nullopt;
  reactor_->run([this, unwinds, &thrown] {
    const bool busy = is_busy();
    if (busy && unwinds) end_unwound(thrown);
    if (busy && !generation().failure()) {
      generation().fail(
          {Fault::cancelled,
           fmt::format("rank {} ended group '{}' while operations were in flight; wait for "
                       "every Work first",
                       generation().identity().rank, name_),
           {generation().identity().rank}});
    }
    generation().subscribe(id_, nullptr);
    board_carrier_.close();
    board_.close();
    if (std::exchange(is_looked_at_, false)) reactor_->remove(*this);
    generation().release_group(id_);
    if (timer_) reactor_->poller().cancel(*timer_);
    timer_.reset();
    closed_ = true;
  });
}

// The others wait a moment for the cause.
void Group::end_unwound(const std::optional<Failure>& thrown) {
  constexpr std::chrono::seconds kCause{1};
  generation().unwind(thrown);
  reactor_->poller().after(kCause, [weak = std::weak_ptr(members_.shared_generation())] {
    if (const auto generation = weak.lock()) generation->tell_unwound();
  });
}

// --- time ----------------------------------------------------------------------------------------

bool Group::is_busy() const {
  return current_ || !queue_.empty() || !point_to_point_.idle() || !staged_.idle() ||
         !late_sends_.empty();
}

void Group::note_activity() {
  const bool active = is_busy();
  if (active && !active_since_) active_since_ = Clock::now();
  if (!active && active_since_) {
    traffic_.in_flight += Clock::now() - *active_since_;
    active_since_.reset();
  }
}

Traffic Group::traffic() {
  Traffic snapshot;
  const auto take = [&] {
    snapshot = traffic_;
    if (active_since_) snapshot.in_flight += Clock::now() - *active_since_;
  };
  reactor_->run(take);
  snapshot.waited = std::chrono::nanoseconds(waited_->load());
  return snapshot;
}

// When the ranks are to tell each other what they have called.
Clock::time_point Group::asks_at() const {
  const Deadline due = current_->request().deadline.sooner(queued_until_);
  const auto latest = begun_at_ + kAsk;
  return due.is_never() ? latest : std::min(latest, begun_at_ + (due.moment() - begun_at_) / 2);
}

// One timer for all: a due one looks what is late, and is set again only while something is in
// flight.
void Group::arm_timer() {
  Deadline next = point_to_point_.next_deadline().sooner(staged_.next_deadline());
  if (!queue_.empty()) next = next.sooner(queued_until_);
  if (!late_sends_.empty()) next = next.sooner(late_sends_.next_deadline());
  if (!staged_.idle()) next = next.sooner(Deadline::in(stalls_.between_looks()));
  if (current_) {
    next = next.sooner(current_->request().deadline);
    if (current_->may_ask_all()) next = next.sooner(Deadline::at(asks_at()));
    if (stalls_.looks()) next = next.sooner(Deadline::at(stalls_.next_look()));
  }
  if (next.is_never() || closed_) return;
  if (timer_ && timer_due_ <= next.moment()) return;
  if (timer_) reactor_->poller().cancel(*timer_);
  timer_due_ = next.moment();
  timer_ = reactor_->poller().after(next.left(), [this] { on_timer(); });
}

// Grows while data comes, goes or is worked on.
std::uint64_t Group::movement() const {
  return frames_received_ + traffic_.messages_sent + traffic_.bytes_reduced +
         board_carrier_.movement() + kernels_.movement();
}

std::optional<Failure> Group::overdue_transfer(Clock::time_point now) {
  if (auto late = point_to_point_.overdue(now)) return late;
  auto late_copy = staged_.overdue(now);
  if (!late_copy) late_copy = late_sends_.overdue(now);
  if (!late_copy) return std::nullopt;
  const std::string text =
      fmt::format("deadline: {} waits {}", members_.name(members_.rank()), late_copy->what);
  return members_.failure(late_copy->fault, text, {members_.rank()});
}

// An operation that waits behind the current one may be due before it.
std::optional<Failure> Group::overdue_call(Clock::time_point now) {
  const auto late =
      std::ranges::find_if(queue_, [now](const Request& r) { return r.deadline.passed(now); });
  queued_until_ = {};
  for (const Request& request : queue_) queued_until_ = queued_until_.sooner(request.deadline);
  const std::string behind = late == queue_.end() ? "" : to_string(late->call, late->carrier());
  if (!current_ && late != queue_.end()) {
    return members_.failure(
        Fault::timed_out,
        fmt::format("deadline: {} waits in {} for its device, or for that of a call before it; "
                    "look at what else was given to the device",
                    members_.name(members_.rank()), behind),
        {members_.rank()});
  }
  const bool is_due =
      current_ && (current_->request().deadline.passed(now) || late != queue_.end());
  if (!is_due) return std::nullopt;
  return stalls_.overdue(*current_, board_.awaited_pages(), behind);
}

void Group::tell_stalls(Clock::time_point now) {
  const std::string own = members_.name(members_.rank());
  for (const std::string& call : staged_.stalled(now, stall_time_))
    stalls_.tell(fmt::format("{} waits in {}", own, call));
  for (const std::string& transfer : point_to_point_.stalled(now, stall_time_))
    stalls_.tell(fmt::format("{} waits in {}", own, transfer));
}

void Group::on_timer() {
  timer_.reset();
  const auto now = Clock::now();
  if (auto late = overdue_transfer(now)) return generation().fail(*std::move(late));
  tell_stalls(now);
  if (current_ && current_->may_ask_all() && now >= asks_at()) {
    if (auto asked = current_->ask_all(); !asked) return generation().fail(asked.error());
  }
  if (auto late = overdue_call(now)) return generation().fail(*std::move(late));
  if (current_ && stalls_.is_stalled(movement(), now))
    stalls_.tell(*current_, board_.awaited_pages());
  arm_timer();
}

}  // namespace paceline::collective
