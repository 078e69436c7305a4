// How full groups of gradients travel, and what ranks tell each other beside them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "paceline/core/collective/group/communicator.h"
#include "paceline/core/job/host_memory.h"
#include "paceline/core/schedule/schedule.h"
#include "paceline/torch/gradient/step_note.h"

namespace paceline::parallel {

// A group whose gradients are all there.
struct GradientLoad {
  Buffer gradients;                    // side by side; means once they are back
  std::shared_ptr<HostMemory> memory;  // that they lie in
  StepNote note;                       // of this rank
};

// Carries one step after the other. THREAD: one. THROWS Error, from every call: what ended the
// communication.
class GradientCarrier {
 public:
  virtual ~GradientCarrier() = default;

  // Each group once a step, in any order.
  virtual void carry(std::size_t group, GradientLoad load) = 0;
  // Groups of this step that were free to travel so far: all that go before them are there too.
  virtual std::size_t started() const = 0;
  // Until the group's means are back. False: a value of some rank overflowed where it was
  // compressed, so there are none, on any rank.
  virtual bool wait(std::size_t group) = 0;
  // What each rank told about the group. REQUIRES: all groups of the step are carried.
  virtual std::vector<StepNote> notes(std::size_t group) = 0;
  // The step is over. REQUIRES: all groups were waited for.
  virtual void end() = 0;
  // Time in which something was under way, so far.
  virtual double seconds_under_way() = 0;
  // What compression did so far, on this rank.
  virtual schedule::GradientPath::CodecWork codec_work() { return {}; }

  // What compression keeps on this rank from step to step (compress/state/saved_state.h), its
  // tensors counted as parameters; empty: nothing. Between steps. One that does not compress hands
  // on what it was given.
  virtual std::vector<std::byte> state() = 0;
  virtual void restore(std::vector<std::byte> state) = 0;
};

// Group after group on `group` itself, each one all_reduce with its note: no message more.
std::unique_ptr<GradientCarrier> carrier_in_order(Communicator& group,
                                                  const std::vector<schedule::Bucket>& groups);

// As a plan says (schedule/path/gradient_path.h), in groups of gradients of the plan. Notes travel
// in an all_gather of their own, at the end of the step. Collective. `mean_weight`: of the ranks,
// in the step before. `parameters`: whose gradients they are, in send order. REQUIRES: one type of
// all gradients, f32 where the plan has codecs.
std::unique_ptr<GradientCarrier> carrier_by_plan(Communicator& group, const schedule::Model& model,
                                                 const schedule::Plan& plan, Dtype dtype,
                                                 double mean_weight,
                                                 std::vector<std::uint32_t> parameters);

}  // namespace paceline::parallel
