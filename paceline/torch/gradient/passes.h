// The backward passes of a step as the user sees them: which have run, what they made, and which
// use of them is misuse.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "paceline/torch/replica/parts/model_parts.h"

namespace paceline::gradient {

// Were parameters or gradients touched between backward() and the end of the step? Then the
// replicas would drift apart, or a gradient in flight would be overwritten.
class ParameterWatch {
 public:
  // `parameters` outlives this.
  explicit ParameterWatch(const std::vector<replica::Parameter>& parameters)
      : parameters_(parameters), seen_(parameters.size()) {}

  // The parameter and its grad are from now on to stay as they are.
  void gradient_made(std::size_t i);
  // Its grad is a tensor now that nobody can read, with right.
  void gradient_hidden(std::size_t i);
  void forget() { seen_.assign(parameters_.size(), {}); }

  // The name of a parameter that changed; empty: none did.
  std::string changed_parameter() const;
  // A text on the parameters that were touched; empty if none was.
  std::string complaint() const;

 private:
  void see_gradient(std::size_t i);

  struct Seen {
    bool made = false;
    std::uint32_t parameter_version = 0;
    std::uint64_t parameter_probe = 0;
    const void* gradient = nullptr;  // which tensor grad was, and at which version
    std::uint32_t gradient_version = 0;
    std::uint64_t gradient_probe = 0;
    bool is_hidden = false;  // it has no values to look at
  };

  const std::vector<replica::Parameter>& parameters_;
  std::vector<Seen> seen_;
};

class Passes {
 public:
  // `parameters` outlive this. A step has `of_a_step` passes; the last one sends the sum.
  Passes(const std::vector<replica::Parameter>& parameters, int of_a_step);

  // While it is true, passes only accumulate, and do not count.
  void pause(bool paused) { is_paused_ = paused; }
  bool is_paused() const { return is_paused_; }
  // Whether the present pass only accumulates.
  bool are_accumulating() const { return is_paused_ || counted_ < of_a_step_; }
  // Whether the next gradient of this parameter is sent: its pass is the step's last.
  bool will_send(std::size_t i) const;
  // The number of the present pass in this step, from 1; 0: there was none.
  int number() const { return present_.number; }

  // A gradient of this parameter is about to be made. `is_sending`: a gradient of this step was
  // sent. THROWS Error (misuse): its pass must not be.
  void arriving(std::size_t i, bool is_sending);
  // It was made, and accumulates.
  void accumulated(std::size_t i) { made_[i].accumulated = true; }
  // THROWS Error (misuse): it was made with rows alone, and was not said to be.
  void require_dense(std::size_t i) const;
  // It was made in the pass that sends; parameter and grad must stay as they are from here on.
  void made(std::size_t i);
  // Gradients that earlier passes accumulated count as made in this one.
  void counts(std::size_t i) { made_[i].counts = true; }
  // The parameter's slot holds what this rank contributes to the step.
  void filled(std::size_t i) { made_[i].filled = true; }
  // Its grad is a tensor now that nobody can read, with right.
  void hidden(std::size_t i) { watch_.gradient_hidden(i); }
  void end_step();

  bool has_made(std::size_t i) const { return made_[i].counts; }
  bool has_filled(std::size_t i) const { return made_[i].filled; }
  bool has_accumulated(std::size_t i) const { return made_[i].accumulated; }
  bool has_accumulated_any() const;
  // Whether this rank used each parameter.
  std::vector<bool> used() const;
  // A text on parameters or gradients that were touched since they were made; empty: none was.
  std::string complaint() const { return watch_.complaint(); }

 private:
  // The state of a parameter from its gradient's arrival to the end of the step.
  struct Made {
    bool counts = false;
    bool filled = false;
    bool accumulated = false;
    int pass = 0;  // the last pass that made one
  };
  // A backward pass as the user sees it: with those that run within it. A nested one may make a
  // gradient before the one around it does; then it is not known yet which one that is.
  struct Pass {
    int number = 0;   // of this step's, from 1
    int latest = -1;  // backward() that made a gradient
    int outer = -1;   // -1: not known yet
    int nested = -1;  // the first one; -1: there is none
  };

  bool begins_pass(std::size_t i) const;
  void enter_pass(std::size_t i);
  void refuse_second_pass(std::size_t i) const;

  const std::vector<replica::Parameter>& parameters_;
  const int of_a_step_;
  ParameterWatch watch_;
  bool is_paused_ = false;
  Pass present_;            // or the last one
  int counted_ = 0;         // passes of this step so far, without those of a pause
  std::vector<Made> made_;  // by parameter
};

}  // namespace paceline::gradient
