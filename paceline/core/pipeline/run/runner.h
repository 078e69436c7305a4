// Runs one rank's part of a pipeline's order over a Communicator's send and recv.
//
// The calling thread computes; messages travel behind its back. A send never holds up the next
// computation, and its memory is held until it is done; receives are posted in the order of need,
// a few ahead. Between two stages of one rank nothing is sent.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "paceline/core/base/bytes.h"
#include "paceline/core/base/deadline.h"
#include "paceline/core/base/trace_log.h"
#include "paceline/core/collective/group/communicator.h"
#include "paceline/core/pipeline/order/order.h"
#include "paceline/core/pipeline/run/transfer.h"

namespace paceline::pipeline {

// The work of one rank's stages. THREAD: the one that runs them.
class StageWork {
 public:
  virtual ~StageWork() = default;
  // Memory for a message that will come, one buffer for each of its tensors, in the sender's order,
  // dtypes and counts. It stays valid until the operation that needs the message has been computed.
  // Buffers at multiples of 64 bytes keep bits equal: kernels may sum in another order elsewhere.
  virtual std::vector<Buffer> room(const Transfer& transfer) = 0;
  // Computes the operation, whose inputs have arrived. What a stage of this rank needs of another
  // stage of this rank is handed over in memory.
  virtual void compute(const Operation& operation) = 0;
  // The result of the operation that was just computed, for the other rank; at least one buffer. It
  // stays valid and unchanged until sent().
  virtual std::vector<ConstBuffer> message(const Transfer& transfer) = 0;
  // The message's memory may be used again.
  virtual void sent(const Transfer& transfer) = 0;
};

struct OperationSpan {
  Operation operation;
  Clock::time_point begin, end;  // of its computation
};

struct StepReport {
  double idle_seconds = 0;     // it waited for messages that it needed
  double compute_seconds = 0;  // in StageWork::compute
  int peak_live = 0;           // activations, as peak_live in check_order.h counts them
  std::vector<OperationSpan> operations = {};
};

// Two keep a link busy in both directions; more take memory long before their messages come.
inline constexpr int kReceivesAhead = 2;

struct RunnerOptions {
  // The number of receives that may be posted beside that of the operation that runs next. 0 lets
  // run() of a whole order choose: kReceivesAhead, or fewer if the rank has fewer activations in
  // flight.
  int ahead = 0;
  bool split_backward = false;  // an activation lives until its weight gradient
  // A transfer fails that long after it was posted; zero: as the communicator's operations do.
  std::chrono::milliseconds within = {};
  // A rank that waits so long for a message tells it on stderr, once.
  std::chrono::milliseconds stall = std::chrono::seconds(5);
};

// A runner whose list grows, for orders without end. It must be the only user of the communicator's
// tags, which it takes from 0 on (tag_of, transfer.h).
class Runner {
 public:
  // `work` outlives the runner. REQUIRES: the communicator has as many ranks as the placement.
  Runner(Communicator& group, Placement placement, StageWork& work, RunnerOptions options);
  // If messages are in flight it ends the generation, with a text: drain() and forget() come before.
  // No message uses memory of `work` afterwards.
  ~Runner();
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

  // Computes these operations, one after the other. Messages may be under way when it returns.
  // `first_turn`: of micro-batch 0, so that no message of another step has its tags. THROWS Error
  // that names the message for which the rank waited, and what `work` throws. Memory of messages
  // must then stay until the runner is gone.
  // `next` will run later, with the same first turn: its receive may be posted meanwhile.
  StepReport run(std::span<const Operation> operations, std::uint64_t first_turn = 0,
                 std::optional<Operation> next = {});
  // This operation will run later, with the first turn of the last run: its receive may be posted.
  void expect(const Operation& operation);
  // The operation was expected, and never runs: takes the message that its peer sends by
  // send_unused() and forgets it. The first turn is that of the last run.
  void forget(const Operation& operation);
  // Sends a message, whose content nobody reads, for an operation that forget() is called for.
  void send_unused(const Transfer& transfer);
  // Waits until all messages are sent.
  void drain();

 private:
  class State;
  std::unique_ptr<State> state_;
};

// Runs the rank's list of an order, and returns when its messages are sent. Successive calls on one
// communicator give `step` in rising order, from 0; the order has the same number of micro-batches
// in all of them. THROWS Error, as Runner::run does, and then no message uses memory of `work` any
// more; misuse: the order is for another number of ranks.
StepReport run(Communicator& group, const Order& order, StageWork& work, std::uint64_t step = 0,
               const RunnerOptions& options = {});

// Shows on a trace what the rank computed, as spans: records each operation of the report in the
// lane of stages: "F micro-batch 3 on stage 1" for a forward, B for a backward, W for a weight
// gradient. Nothing while the log is not enabled.
void trace_operations(const StepReport& report, TraceLog& log);

}  // namespace paceline::pipeline
