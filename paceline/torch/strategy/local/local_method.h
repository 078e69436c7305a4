// LocalMethod: how replicas that each step by their own gradients are brought together. One class
// implements it for each such strategy (strategies/); LocalSteps (local_steps.h) calls it.
#pragma once

#include <torch/optim/optimizer.h>

#include <vector>

#include "paceline/core/base/json_reader.h"
#include "paceline/torch/replica/replica.h"
#include "paceline/torch/strategy/local/local_replica.h"

namespace paceline::strategy {

// The state that a method keeps from step to step beside the model.
struct MethodState {
  JsonReader::Json values = JsonReader::Json::object();  // the same on all ranks
  std::vector<at::Tensor> tensors = {};  // of this rank, always as many and as large
};

// THREAD: one. Every method is collective: all ranks call them in the same order, once a step.
class LocalMethod {
 public:
  virtual ~LocalMethod() = default;

  // All ranks make each step together. If not, only write_consensus() and state() are collective,
  // and there are neither weights of 0 nor exchanges of weights.
  virtual bool is_lockstep() const { return true; }

  // A step begins: its first gradient is about to be made, or it ends without one. The model is as
  // the last step left it, or as it was loaded since.
  virtual void begin_step() {}
  // The program wrote into the model's parameters since the last step, with right: what the method
  // keeps beside them follows. Called before begin_step(), write_consensus() and state(); not
  // collective, because a rank may be the only one that wrote. A method that keeps nothing beside
  // the model has nothing to do.
  virtual void written() {}
  // The user told the loss of this rank's batch of `samples`.
  virtual void loss(double loss, double samples) {
    static_cast<void>(loss), static_cast<void>(samples);
  }
  // The gradients of this rank are in their grads, and the optimizer is about to step. Not called
  // on a rank without a batch.
  virtual void before_update() {}
  // This rank may be about to wait for all others, in whatever they make together: none of them
  // waits for it any more, until it makes another step. All ranks call it, which may be at different
  // steps. A method whose ranks wait in its exchanges alone has nothing to do.
  virtual void quiesce() {}
  // The optimizers have stepped, unless this rank had no batch.
  virtual void after_update(const replica::Optimizers& optimizers) = 0;

  // Writes the model that all ranks share into this one, with equal bits on all ranks.
  virtual void write_consensus() = 0;

  virtual MethodState state() { return {}; }
  // `tensors` are those of state(), filled. `is_same_world`: as many ranks saved it. THROWS
  // JsonReader::Json::exception: values that do not fit.
  virtual void restore(const JsonReader::Json& values, bool is_same_world) {
    static_cast<void>(values), static_cast<void>(is_same_world);
  }

  // Figures of the last exchange and of all so far.
  virtual replica::ExchangeReport report() const = 0;
  // Adds to the report of a step that has ended what servers told, and how long they took, if the
  // method exchanges with them.
  virtual void report_servers(StepReport& report) const { static_cast<void>(report); }
};

}  // namespace paceline::strategy
