// TableRun: a table of numbers or a sparse one, as a rank has it on the links of its job: its
// machine, and the waits of calls for it.
#pragma once

#include <fmt/format.h>

#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "paceline/core/base/check.h"
#include "paceline/core/base/log.h"
#include "paceline/core/coordination/machine_run.h"
#include "paceline/core/job/server_words.h"
#include "paceline/core/server/declaring.h"
#include "paceline/core/server/made_tables.h"
#include "paceline/core/server/run_failures.h"

namespace paceline::server {

// The table of a job with this spec, on these members or on the job's servers. THROWS Error
// (misuse): the arguments make no sense, or this is a server.
template <typename Machine, typename Spec>
typename Machine::Shape shape_in(Job& job, Spec spec, const std::optional<TableMembers>& members) {
  PACELINE_CHECK(job.role() == Role::worker,
                 "{} '{}': a server makes no tables; it gets the workers' by paceline::serve(job)",
                 Machine::kName, spec.name);
  spec.replicas = is_by_servers(job, members) ? job::replicas_of(job) : 1;
  return shape_of(spec, members_of(job, members)).value();
}

// `Machine` is what a member does for the table (control/member_machine.h). THREAD: every method
// from one thread at a time, not the driver.
template <typename Machine>
class TableRun {
 public:
  using Shape = typename Machine::Shape;
  using Worker = typename Machine::Worker;

  // No packet comes where the table is not there yet: the barrier makes sure of that among ranks;
  // elsewhere servers only answer, and have the table before its workers.
  TableRun(Job& job, Shape of, bool by_servers)
      : shape(std::move(of)),
        taken_name(MadeTables::of(job)->take(shape.spec.name)),
        frames(by_servers ? declare(job, shape.spec)
                          : MadeTables::of(job)->number_among_ranks(shape.spec.name)),
        machine(shape, job.rank()),
        run(job, frames, shape.members.all(), machine) {
    if (shape.spec.replicas > 1) watch_.emplace(job, [this](Bytes chains) { hear(chains); });
    if (!by_servers) job.world().barrier().wait();
  }

  // This worker leaves, and waits until the workers of the parts that this rank serves have left
  // too. A worker that unwinds says nothing: its end tells the others.
  void end() {
    if (std::uncaught_exceptions() > exceptions_) return;
    try {
      if (machine.is_worker()) {
        perform("the end", [](Worker& worker, machine::Time) { return worker.leave(); });
        wait_for("the end", [](const auto& worker) { return worker.has_left(); });
      }
      wait_for_workers();
    } catch (const Error& error) {  // the others have ended, or hear of this end
      if (error.fault() == Fault::timed_out) warn(error.what());
    }
    taken_name.reset();
  }

  // Carries out on the driver what the worker does, and returns when it is sent.
  void perform(const char* what, typename Machine::Work work) {
    run.links().reactor->check_may_wait(text_of(what));
    do_on_driver(std::move(work));
    check_going(what);
  }
  // Waits until the worker's side is as `holds` says.
  template <typename Holds>
  void wait_for(const char* what, const Holds& holds) {
    const auto of_worker = [this](const auto& look) {
      return [this, look] { return std::as_const(machine).look(look); };
    };
    const auto movement = of_worker([](const auto& worker) { return worker.movement(); });
    wait(what, of_worker(holds),
         {.ask = [this] { do_on_driver([](Worker& one, machine::Time) { return one.ask(); }); },
          .are_answered = of_worker([](const auto& worker) { return worker.has_heard(); }),
          .awaited = of_worker([](const auto& worker) { return worker.awaited(); }),
          .movement = [this, movement] { return run.pieces() + movement(); }});
  }

  void check_worker(const char* what) const {
    PACELINE_CHECK(machine.is_worker(), "{}: this rank only serves {} '{}'", what, Machine::kName,
                   shape.spec.name);
  }

  const Shape shape;
  std::shared_ptr<const void> taken_name;  // until the table ends; Answers may outlive it
  const std::uint32_t frames;              // the number that marks its own
  Machine machine;
  coordination::MachineRun run;

 private:
  void hear(Bytes chains) {
    run.tell({.kind = Machine::kChains, .payload = {chains.begin(), chains.end()}});
  }
  void do_on_driver(typename Machine::Work work) {
    machine.do_work(std::move(work));
    run.carry_out({.kind = Machine::kWork});
  }
  void wait_for_workers() {
    const auto awaited = [this] {
      coordination::Awaited those;
      for (const int member : machine.served()) those.lacks(member, "ended it");
      return those;
    };
    wait("the end", [this] { return !machine.serves_members(); },
         {.awaited = awaited, .movement = [this] { return machine.served().size(); }});
  }
  void wait(const char* what, const std::function<bool()>& done,
            const coordination::Questions& questions) {
    const auto is_over = [&] { return done() || machine.failure(); };
    run.wait_and_ask(text_of(what), is_over, questions);
    if (!done()) check_going(what);
  }
  // Throws what ends all calls, if anything has.
  void check_going(const char* what) const {
    check_alive(run, text_of(what));
    check_found(run, machine.failure(), text_of(what));
  }
  std::string text_of(const char* what) const {
    return fmt::format("{} of {} '{}'", what, Machine::kName, shape.spec.name);
  }

  std::optional<job::MapWatch> watch_;  // of the chains of servers
  const int exceptions_ = std::uncaught_exceptions();
};

}  // namespace paceline::server
