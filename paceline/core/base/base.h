// The public header of base: the vocabulary of all other rooms.
//
// It has bytes and buffers (bytes.h), element types (dtype.h), reductions over elements (reduce.h),
// failures as values and as exceptions (result.h), deadlines (deadline.h), checksums (crc32c.h) and
// seeded numbers (seed.h). Nothing here knows of ranks, links or threads. Start reading at bytes.h
// and result.h.
#pragma once

#include "paceline/core/base/bytes.h"
#include "paceline/core/base/crc32c.h"
#include "paceline/core/base/deadline.h"
#include "paceline/core/base/dtype.h"
#include "paceline/core/base/reduce.h"
#include "paceline/core/base/result.h"
#include "paceline/core/base/seed.h"
