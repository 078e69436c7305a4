// MixedPrecision: scales the loss, unscales the mean gradients, and skips steps that overflowed, in
// a training in 16 bits. The room precision implements it; Replicas asks it.
//
// A step is: scaled(), backward, the mean gradients, unscale(), the update or none, ended().
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "paceline/core/base/json_reader.h"
#include "paceline/core/collective/group/communicator.h"

namespace paceline::replica {

// THREAD: one. Ranks decide together, so all make the same calls.
class MixedPrecision {
 public:
  virtual ~MixedPrecision() = default;

  // Goes on among these ranks. Collective.
  virtual void bind(Communicator& group) = 0;
  // The loss from which a backward pass shall start.
  virtual at::Tensor scaled(const at::Tensor& loss) const = 0;
  // Whether scaled() changes the loss, so that no backward pass may do without it.
  virtual bool has_scale() const = 0;
  // Whether gradients overflow because the scale is too large; not at its floor.
  virtual bool may_fall() const = 0;
  // Turns the grads of `leaves` into those of the loss. `was_scaled`: all of this rank's passes
  // began at scaled(). False on all ranks: on some of them they did not, or a gradient is not
  // finite, and nobody updates. THROWS Error: misuse, a second time in one step; what ended the
  // communication.
  virtual bool unscale(const std::vector<at::Tensor>& leaves, bool was_scaled) = 0;
  virtual bool is_unscaled() const = 0;
  void require_scaled() const;  // THROWS Error (misuse): as unscale() does
  // The step is over, with an update, or without one because of its numbers.
  virtual void ended(bool has_updated) = 0;
  // The step is over without an update, for another reason.
  virtual void gave_up() = 0;

  // The state that goes from step to step, the same on all ranks.
  virtual JsonReader::Json state() const = 0;
  // THROWS JsonReader::Json::exception: it is no such state.
  virtual void restore(const JsonReader::Json& state) = 0;
};

// THROWS Error (misuse): a training with fp16 and its scale would go on from the saved state of one
// without, or the reverse. `values`: SynchronyState::values. `precision`: the text of the option.
void require_same_scale(bool has_scale, const JsonReader::Json& values,
                        const std::string& precision);

}  // namespace paceline::replica
