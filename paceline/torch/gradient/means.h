// Means: what becomes of this rank's gradients once a bucket is full, and what the rank gets of the
// mean. It has three forms: nothing travels, each rank gets the whole mean, each rank gets
// the pieces that it owns (shard/gradient_pieces.h).
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "paceline/torch/gradient/gradient_buckets.h"
#include "paceline/torch/gradient/gradient_layout.h"
#include "paceline/torch/replica/parts/model_parts.h"

namespace paceline::gradient {

class ScheduledPath;

// OutgoingBuckets (outgoing_buckets.h) fills the buckets. THREAD: one. THROWS Error, from every
// call: what ended the communication.
class Means {
 public:
  virtual ~Means() = default;

  // The buckets of a step and their memory; gradients that are in none stay where autograd puts
  // them. It is the same from a step's first gradient to its end.
  virtual const GradientLayout& layout() const = 0;

  // This rank's gradients of the bucket leave, each times `share`; a bucket without memory counts
  // as zeros. Buckets may be sent in any order; they travel in the layout's. Their memory is in use
  // until the means are back.
  virtual void send(std::size_t bucket, const GradientBuckets& buckets, double share) = 0;
  // All buckets of this rank were sent, and there is a batch on some rank.
  virtual void sent_all() = 0;
  // Waits until this rank has what it gets of the bucket's means. False: a value overflowed on its
  // way, so no rank has them.
  virtual bool wait(std::size_t bucket) = 0;
  // Makes them the grads of what an optimizer steps, for the parameters that are `used`.
  virtual void hand_out(std::size_t bucket, const GradientBuckets& buckets,
                        const std::vector<bool>& used) = 0;
  // Collective, when all buckets were handed out: whether a value overflowed that wait() could not
  // tell of, on any rank. Then the grads that were handed out are gone.
  virtual bool overflow() = 0;
};

// For a rank that has no peers, or no dense parameter: its gradients are the means already.
std::unique_ptr<Means> make_own_means();
// Over a path that carries; each mean replaces this rank's gradient in its slot. `path` and
// `parameters`, the dense ones first, outlive it.
std::unique_ptr<Means> make_whole_means(ScheduledPath& path,
                                        const std::vector<replica::Parameter>& parameters);

}  // namespace paceline::gradient
