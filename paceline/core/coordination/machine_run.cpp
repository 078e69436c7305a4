#include "paceline/core/coordination/machine_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "paceline/core/base/log.h"
#include "paceline/core/collective/group/machine_links.h"
#include "paceline/core/coordination/link_movement.h"

namespace paceline::coordination {

using machine::Actions;
using machine::Message;
using machine::Time;

// Wakes those who wait for what the machine does, and numbers its peers as the group does.
// THREAD: the driver.
class MachineRun::Inside final : public machine::Machine {
 public:
  // `world_ranks`: by rank in the group; empty: the machine's numbers are those of the job.
  Inside(machine::Machine& machine, transport::Reactor& reactor, std::vector<int> world_ranks = {})
      : machine_(machine), reactor_(reactor), world_ranks_(std::move(world_ranks)) {}

  Actions on_message(int from, const Message& message, Time now) override {
    return done(machine_.on_message(in_group(from), message, now));
  }
  Actions on_timer(std::uint32_t timer, Time now) override {
    return done(machine_.on_timer(timer, now));
  }
  Actions on_lost(int peer, Time now) override {
    return done(machine_.on_lost(in_group(peer), now));
  }

 private:
  Actions done(Actions actions) {
    reactor_.note_completion();
    for (machine::Action& action : actions) {
      if (auto* const send = std::get_if<machine::Send>(&action)) send->to = in_job(send->to);
      if (auto* const drop = std::get_if<machine::Drop>(&action)) drop->peer = in_job(drop->peer);
    }
    return actions;
  }
  int in_group(int member) const {
    if (world_ranks_.empty()) return member;
    const auto found = std::ranges::find(world_ranks_, member);
    return found == world_ranks_.end() ? -1 : static_cast<int>(found - world_ranks_.begin());
  }
  int in_job(int peer) const {
    return world_ranks_.empty() ? peer : world_ranks_[static_cast<std::size_t>(peer)];
  }

  machine::Machine& machine_;
  transport::Reactor& reactor_;
  const std::vector<int> world_ranks_;
};

namespace {

class AskingWait {
 public:
  AskingWait(const job::JobLinks& links, const std::string& what,
             const std::function<bool()>& is_over, const Questions& questions)
      : links_(links),
        what_(what),
        is_over_([&] { return is_over() || links.generation->is_failing(); }),
        questions_(questions),
        movement_(links) {}

  void operator()() {
    while (!until(is_told_ ? last_question_ : next_look().sooner(last_question_))) {
      if (last_question_.passed()) return end();
      if (has_moved() || !quiet_until_.passed()) continue;
      if (hear_answers()) return;
      warn(stall_text(links_.stall_time, waits_for(awaited())));
      is_told_ = true;
    }
  }

 private:
  const membership::GenerationIdentity& own() const { return links_.generation->identity(); }
  bool until(Deadline deadline) const { return links_.reactor->drive_until(is_over_, deadline); }

  // It looks more often than once in the stall time, or what moved just after a look would put the
  // line off by all of that time.
  Deadline next_look() const {
    constexpr int kLooks = 10;
    return quiet_until_.sooner(Deadline::in(Clock::duration(links_.stall_time) / kLooks));
  }

  bool has_moved() {
    const std::uint64_t before = std::exchange(moved_, questions_.movement());
    if (moved_ != before) quiet_until_ = Deadline::in(links_.stall_time);
    return moved_ != before;
  }

  // Whether the wait was over meanwhile.
  bool hear_answers() {
    ask();
    links_.reactor->drive_until([this] { return is_over_() || questions_.are_answered(); },
                                Deadline::in(for_answers_).sooner(last_question_));
    return is_over_();
  }

  void ask() {
    links_.reactor->run([this] { movement_.begin(); });
    questions_.ask();
  }

  Awaited awaited() const {
    Awaited those = questions_.awaited();
    links_.reactor->run([&] { movement_.excuse(those); });
    return those;
  }

  std::string waits_for(const Awaited& those) const {
    return fmt::format("{} waits in {} for {}", own().name_of(own().rank), what_,
                       those.text(own().ranks()));
  }

  void end() {
    ask();
    if (until(deadline_)) return;
    const Awaited those = awaited();
    const Failure failure = deadline_failure(waits_for(those), those, own().ranks());
    bool is_first = false;
    links_.reactor->run([&] {
      is_first = !links_.generation->is_failing();
      links_.generation->fail(failure);
    });
    if (is_first) throw Error(failure);
  }

  const job::JobLinks& links_;
  const std::string& what_;
  const std::function<bool()> is_over_;
  const Questions& questions_;
  LinkMovement movement_;
  const std::chrono::nanoseconds for_answers_ = answers_within(links_.timeout);
  // The last question is asked so early that its answers are there at the deadline.
  const Deadline deadline_ = Deadline::in(links_.timeout),
                 last_question_ = Deadline::in(links_.timeout - for_answers_);
  Deadline quiet_until_ = Deadline::in(links_.stall_time);
  std::uint64_t moved_ = questions_.movement();
  bool is_told_ = false;
};

}  // namespace

// The barrier makes sure that no message comes where the run is not there yet.
MachineRun::MachineRun(Communicator& group, machine::Machine& machine)
    : MachineRun(group.machine_links(),
                 fmt::format("rank {} of group '{}'", group.rank(), group.name()), machine) {
  group.barrier().wait();
}

MachineRun::MachineRun(const collective::MachineLinks& links, std::string name,
                       machine::Machine& machine)
    : links_{links.reactor, links.generation, links.timeout, links.stall_time},
      name_(std::move(name)),
      inside_(std::make_unique<Inside>(machine, *links_.reactor, links.world_ranks)),
      port_(links_.reactor, links_.generation, links.number, *inside_, {},
            {links.world_ranks.begin(), links.world_ranks.end()}) {}

MachineRun::MachineRun(Job& job, std::uint32_t number, const std::set<int>& members,
                       machine::Machine& machine)
    : links_(job::links_of(job)),
      name_(links_.generation->identity().name_of(links_.generation->identity().rank)),
      inside_(std::make_unique<Inside>(machine, *links_.reactor)),
      port_(links_.reactor, links_.generation, number, *inside_, {}, members) {}

MachineRun::~MachineRun() = default;

void MachineRun::tell(Message message) {
  port_.tell(std::move(message));
}

// Posts keep their order.
void MachineRun::carry_out(Message message) {
  tell(std::move(message));
  links_.reactor->run([] {});
}

void MachineRun::wait(const std::string& what, const std::function<bool()>& done,
                      const Questions& questions) const {
  wait_and_ask(what, done, questions);
  if (!done()) job::check_alive(links_);
}

void MachineRun::wait_within(const char* what, const std::function<bool()>& done,
                             std::chrono::milliseconds within) const {
  const auto is_over = [&] { return done() || links_.generation->is_failing(); };
  const bool over = links_.reactor->drive_until(is_over, Deadline::in(within));
  if (done()) return;
  job::check_alive(links_);
  if (over) return;
  throw Error({Fault::timed_out,
               fmt::format("{} waited {} ms for {}; a rank may be stopped or have ended its part "
                           "early: look at the other ranks' logs",
                           name_, within.count(), what),
               {}});
}

void MachineRun::wait_and_ask(const std::string& what, const std::function<bool()>& is_over,
                              const Questions& questions) const {
  AskingWait(links_, what, is_over, questions)();
}

Failure MachineRun::cause_of(Failure found) const {
  links_.reactor->run([&] {
    if (port_.failure()) found = *port_.failure();
    else if (found.fault == Fault::peer_lost && !found.ranks.empty())
      if (const auto why = port_.dropped_by(found.ranks.front()))
        found.what =
            fmt::format("{} hears this rank no more: {}",
                        links_.generation->identity().name_of(found.ranks.front()), why->what);
  });
  return found;
}

}  // namespace paceline::coordination
