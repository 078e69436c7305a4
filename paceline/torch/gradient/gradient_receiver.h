// Takes the means of gradients where no rank gets all of them, because each owns a piece.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "paceline/core/base/bytes.h"
#include "paceline/core/schedule/schedule.h"

namespace paceline::parallel {

// GradientAveraging (gradient_averaging.h) fills the buckets and hands them to it. Buckets may be
// handed over in any order; they travel in theirs. THREAD: one. THROWS Error, from every call: what
// ended the communication.
class GradientReceiver {
 public:
  virtual ~GradientReceiver() = default;

  // Those of every step, as indices of dense parameters, each gradient at a multiple of 64 bytes;
  // and the bytes of each bucket's memory, which are at least those.
  virtual const std::vector<schedule::Bucket>& buckets() const = 0;
  virtual const std::vector<std::size_t>& bytes() const = 0;
  // Whether a bucket keeps its memory from step to step; if not, it has some from its first
  // gradient until its means are back.
  virtual bool keeps_memory() const = 0;

  // Sends this rank's gradients, times its share, and holds their memory. No data: zeros.
  virtual void send(std::size_t bucket, const Buffer& gradients,
                    std::shared_ptr<const void> memory) = 0;
  // The number of buckets that are under way or back: the first ones.
  virtual std::size_t started() const = 0;
  // All buckets of this rank were sent, and there is a batch on some rank.
  virtual void sent_all() = 0;
  // Waits until this rank's piece of the bucket's means is there.
  virtual void wait(std::size_t bucket) = 0;
  // Makes them the grads of what an optimizer steps. `used`: by dense parameter.
  virtual void hand_out(std::size_t bucket, const std::vector<bool>& used) = 0;
  // All buckets were handed out. Collective: whether a mean overflowed on some rank because it
  // travelled in fewer bits; then all grads that were handed out are gone.
  virtual bool take_overflow() = 0;
};

}  // namespace paceline::parallel
