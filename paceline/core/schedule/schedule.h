// The door of schedule: order as a value. Which gradient travels when, and together with which
// others.
//
// At present: the buckets of data parallel training (buckets.h). Nothing here moves a byte or knows
// of torch; who carries a plan out stands above (paceline/torch/parallel). Start reading at
// buckets.h.
#pragma once

#include "paceline/core/schedule/buckets.h"
