// Buckets: which gradients travel in one message, and in which order the messages start
// (docs/guide/data_parallel.md).
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "paceline/core/base/dtype.h"

namespace paceline::schedule {

// The properties of a gradient that the plan depends on. The plan names it by its index in the
// order of registration.
struct Gradient {
  std::size_t bytes = 0;
  Dtype dtype = Dtype::f32;
  int device = 0;
  bool operator==(const Gradient&) const = default;
};

struct BucketCaps {
  std::size_t first_bytes = std::size_t{1}
                            << 20;  // the first bucket is small, so that its message starts early
  // The cap of all other buckets; PyTorch takes 25 MiB (docs/decisions/0010-smaller-buckets.md).
  std::size_t bytes = std::size_t{8} << 20;
  bool operator==(const BucketCaps&) const = default;
};

struct Bucket {
  std::vector<int> gradients;  // indices, in the order in which the gradients are expected
  Dtype dtype = Dtype::f32;
  int device = 0;
  std::size_t bytes = 0;
  bool operator==(const Bucket&) const = default;
};

// The order before any observation: a backward pass reaches the last registered parameter first.
std::vector<int> reverse_registration_order(int count);

// Completes an observed order by the missing indices of 0..count-1, in reverse registration order.
// REQUIRES: indices in 0..count-1, none twice (else misuse).
std::vector<int> completed_order(std::span<const int> observed, int count);

// Walks `gradients` in `order` with one open bucket for each (dtype, device). A gradient that would
// lift its open bucket over the cap closes it first, so a gradient larger than the cap is alone in
// its bucket, and no other bucket exceeds its cap. The bucket opened first has the cap
// `first_bytes`. Buckets are numbered in the order in which they complete: by the place of their
// last gradient in `order`. REQUIRES: `order` is a permutation of the indices of `gradients` (else
// misuse).
std::vector<Bucket> plan_buckets(std::span<const Gradient> gradients, std::span<const int> order,
                                 const BucketCaps& caps = {});

// The ends of the buckets where they lie one after the other, as a plan has them (gradient_plan.h).
std::vector<int> cuts_of(std::span<const Bucket> buckets);

}  // namespace paceline::schedule
