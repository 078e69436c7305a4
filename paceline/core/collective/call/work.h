// Work: a handle on one operation in flight.
#pragma once

#include <any>
#include <functional>
#include <memory>
#include <vector>

#include "paceline/core/base/bytes.h"
#include "paceline/core/base/deadline.h"
#include "paceline/core/base/result.h"

namespace paceline {

// Copies share the operation's state. Dropping all of them cancels nothing: the operation goes on,
// and its failure is thrown by the group's next call. THREAD: every method from any thread.
class [[nodiscard]] Work {
 public:
  class State;       // collective/call/work_state.h
  Work() = default;  // of nothing: done
  explicit Work(std::shared_ptr<State> state) : state_(std::move(state)) {}

  bool done() const;  // finished or failed

  // Blocks until the operation is done. THROWS Error: its failure, or timed_out when `deadline`
  // passes first (then the operation goes on; only the operation's own `within` fails it).
  void wait(Deadline deadline = {}) const;

  // For buffers on a device: all that `stream` of it (CUDA: a cudaStream_t) is given from now on
  // begins when the operation is done, or has failed, which the group's next call tells. It returns
  // at once, where wait() blocks. All ranks must make their calls in one order, also over several
  // groups: a call that needs what this stream computes later must not come before this operation
  // on any rank, or both wait for ever. THROWS Error: misuse, the buffers lie on the host; io, the
  // device fails.
  void order(void* stream) const;

  // Runs `callback` once, on the thread that drives the operation to its end (at once if it is
  // done). It must not block. What it throws is told on stderr; if the operation is done already,
  // it is thrown here.
  void on_done(std::function<void(const Result<>&)> callback) const;

  // Holds `what` until the operation is done.
  void keep(std::any what) const;

  // Once a collective is done: the sum of all ranks' weights (AllReduceOptions::weight), in which a
  // rank that gave none counts as 1, however the call was carried; and the note that rank `rank`
  // attached. The note's bytes live as long as a Work of this operation.
  double total_weight() const;
  Bytes note(int rank) const;

  // Once a recv is done: the rank (in the group) that sent it. Otherwise -1.
  int source() const;

  // Several operations as one: done when all are, failed with the first failure among them (in
  // their order). Drop the parts or keep them. All must belong to one Job. Nothing: a Work that is
  // done.
  static Work all_of(std::vector<Work> parts);

  // The Work of a collective without weights and notes that was over within its call.
  static Work over_at_once(int ranks);

 private:
  std::shared_ptr<State> state_;
  double total_weight_ = 0;  // without a state
};

}  // namespace paceline
