// The door of shard: replicas whose state is divided among the ranks (ZeRO;
// docs/guide/sharding.md).
//
// Parameters and gradients lie in units of flat memory, of which each rank owns a piece (units.h,
// unit_memory.h). ShardedAveraging (sharded_averaging.h) is the Synchrony: gradient averaging fills
// buckets as ever, each bucket is reduced to the owners of its pieces (gradient_pieces.h), the
// caller's optimizer steps the pieces, and whole units are gathered, after the step or before their
// use (unit_gathers.h). Start reading at sharded_averaging.h.
#pragma once

#include "paceline/torch/shard/sharded_averaging.h"
