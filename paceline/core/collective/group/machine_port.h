// MachinePort: a pure machine (core/machine) that runs among the ranks of a Communicator, beside
// its operations.
//
// Each rank attaches one of its own: `const auto port = group.attach(machine);`. The machine's
// peers are the ranks of the group; its messages may have any length, and reach a peer once, in the
// order of their sends. It hears on_lost of each rank that ends its port or its Job; a rank that
// dies ends the generation, as usual, and then it hears of all.
//
// The machine runs on the reactor's driver, one event at a time, so it must never block: a training
// thread that shares state with it guards that state by a mutex of the machine's own.
#pragma once

#include <functional>
#include <memory>

#include "paceline/core/base/deadline.h"
#include "paceline/core/machine/machine.h"

namespace paceline {

// THREAD: every method may be called from any thread but the driver; it ends before its Job, not
// necessarily before its Communicator.
class MachinePort {
 public:
  class Impl;
  explicit MachinePort(std::unique_ptr<Impl> impl);
  // Waits for nobody. The machine is called no more when it returns; what it had sent arrives, then
  // the others' machines hear that this rank is lost to them.
  ~MachinePort();
  MachinePort(const MachinePort&) = delete;
  MachinePort& operator=(const MachinePort&) = delete;

  // The machine hears the message soon, as from this rank itself. Returns at once; messages are
  // heard in the order in which one thread tells them.
  void tell(machine::Message message);

  // Blocks until done() is true. It is asked on several threads, so it must be cheap, and what it
  // reads of the machine must be guarded. `what` names it in the failure. THROWS Error: timed_out
  // after `within` (zero: the communicator's), or what has ended the generation.
  void wait(const char* what, const std::function<bool()>& done,
            std::chrono::milliseconds within = {});

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace paceline
