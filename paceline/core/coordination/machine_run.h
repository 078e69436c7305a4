// MachineRun: a pure machine (core/machine) that runs among members of a job, on their links,
// beside the operations of its groups. It is the one driver of machines on real links.
//
//   TicketMachine machine(group.rank(), group.size(), parts);
//   MachineRun run(group, machine);          // each rank makes one
//   run.tell(machine.want());                // the machine hears it, and sends what it will
//   run.wait("Tickets::next()", [&] { return machine.is_settled(); },
//            {.awaited = [&] { return rank_0_lacks("dealt out the next part"); }});
//
// Messages may have any length, and reach a peer once, in the order of their sends. The machine
// hears on_lost of each peer that ends its run or its Job. The death of a member ends the
// generation, and then the machine hears of all.
//
// It runs on the reactor's driver, one event at a time, so it must never block: threads that share
// state with it guard that state by a mutex of the machine's own.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>

#include "paceline/core/collective/group/communicator.h"
#include "paceline/core/coordination/awaited.h"
#include "paceline/core/job/job_links.h"
#include "paceline/core/machine/machine.h"
#include "paceline/core/membership/generation/generation_port.h"

namespace paceline::coordination {

// A wait that gets long asks its machine by these. THREAD: each is called on the one that waits.
struct Questions {
  // Has others asked whom they wait for, and returns at once.
  std::function<void()> ask = [] {};
  // Whether all that were asked have answered; cheap, and callable from any thread.
  std::function<bool()> are_answered = [] { return true; };
  std::function<Awaited()> awaited;
  // Its value changes whenever data of the wait moves.
  std::function<std::uint64_t()> movement = [] { return std::uint64_t{0}; };
};

// The machine outlives it. THREAD: every method may be called from any thread but the driver, if it
// says nothing else. It ends before its Job, not necessarily before its Communicator.
class MachineRun {
 public:
  // Among the ranks of a group, by which the machine numbers its peers. Blocks; every rank of the
  // group makes it, in the order of its operations. THROWS Error: as they do.
  MachineRun(Communicator& group, machine::Machine& machine);
  // Among `members` of a job, which has numbered them: ranks, and the servers above. It waits for
  // nobody; all of them make it with this `number`, which nothing else has. THROWS Error (misuse):
  // the number is in use.
  MachineRun(Job& job, std::uint32_t number, const std::set<int>& members,
             machine::Machine& machine);
  // Waits for nobody. The machine is called no more when it returns; what it had sent arrives, then
  // the others' machines hear that this member is lost to them.
  ~MachineRun();
  MachineRun(const MachineRun&) = delete;
  MachineRun& operator=(const MachineRun&) = delete;

  // The machine hears the message soon, as from this member itself. Messages are heard in the order
  // in which one thread tells them.
  void tell(machine::Message message);
  // The same, and returns when it has heard it, and has sent what it will.
  void carry_out(machine::Message message);

  // Blocks in `what` (pull of table 'w') until done() is true. It is asked on several threads, so
  // it must be cheap, and what it reads of the machine must be guarded. When nothing moves it asks
  // others whom they wait for, and tells it on stderr at the stall time. THROWS Error: timed_out,
  // with the same words, at the timeout of operations, which ends the generation for all members;
  // or what has ended the generation.
  void wait(const std::string& what, const std::function<bool()>& done,
            const Questions& questions) const;
  // The same, but the caller looks after a generation that fails.
  void wait_and_ask(const std::string& what, const std::function<bool()>& is_over,
                    const Questions& questions) const;
  // A wait with a limit of its own, which is no failure of the run: nothing is told on stderr.
  // THROWS Error: timed_out after `within`, or what has ended the generation.
  void wait_within(const char* what, const std::function<bool()>& done,
                   std::chrono::milliseconds within) const;

  // A failure that the machine has found, or a better cause of it: the end of the generation, or
  // the reason for which a lost peer hears this member no more. The machine may ask from its first
  // event on. THREAD: any.
  Failure cause_of(Failure found) const;
  // Pieces of long messages that have come so far: their number grows while one comes. THREAD: any.
  std::uint64_t pieces() const { return port_.pieces(); }
  const job::JobLinks& links() const { return links_; }

 private:
  class Inside;
  MachineRun(const collective::MachineLinks& links, std::string name, machine::Machine& machine);

  const job::JobLinks links_;
  const std::string name_;  // of this member, in texts
  const std::unique_ptr<Inside> inside_;
  membership::GenerationPort port_;
};

}  // namespace paceline::coordination
