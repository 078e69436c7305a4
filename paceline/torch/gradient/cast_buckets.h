// CastBuckets: where the codec of a bucket on a device only casts (fp16, bf16), the device packs and
// casts its gradients, so that half the bytes leave it and come back. Ranks whose model lies on the
// host cast there, to the same bits.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Stream.h>

#include <cstddef>
#include <optional>
#include <vector>

#include "paceline/torch/gradient/gradient_buckets.h"
#include "paceline/torch/gradient/scheduled_path.h"

namespace paceline::gradient {

// THREAD: one.
class CastBuckets {
 public:
  // `path` outlives it.
  explicit CastBuckets(ScheduledPath& path) : path_(path) {}

  bool takes(std::size_t bucket) const;
  // Packs the bucket and loads it into the path. REQUIRES, here and below: takes(bucket).
  void load(std::size_t bucket, const GradientBuckets& buckets);
  // Whether all means that have come back are finite. The device looks on a stream beside those of
  // the computation, and the call waits for that look alone. REQUIRES: the path's wait for the bucket
  // has returned, so the means lie there.
  bool are_finite(std::size_t bucket) const;
  // Writes the means into the bucket.
  void unpack(std::size_t bucket, const GradientBuckets& buckets) const;

 private:
  struct Packed {
    at::Tensor whole, cast;
  };

  ScheduledPath& path_;
  std::vector<Packed> packed_;          // by bucket
  std::optional<c10::Stream> looking_;  // of the device
};

}  // namespace paceline::gradient
