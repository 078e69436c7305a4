// The door of base: the vocabulary of all other rooms.
//
// Bytes and buffers (bytes.h), element types (dtype.h) and the 16-bit ones among them (half.h),
// reductions over elements and the order of sums (reduce.h), the rule by which things are cut into
// parts (chunk.h), failures as values and as exceptions (result.h), what callers must have made
// sure of (check.h), proposals for misspelt names (suggestion.h), numbers in texts (number.h),
// deadlines (deadline.h), seconds of work (stopwatch.h), checksums (crc32c.h, sha256.h), files that
// survive a crash (disk.h, durable_file.h), seeded numbers (seed.h), JSON that people wrote
// (json_reader.h), lines for the user (log.h), processors and who shares them (processors.h), the
// control groups that limit this process (control_groups.h), spans of time on a trace
// (trace_log.h), shared objects that are loaded when asked for (plugin.h), the version (version.h).
// Nothing here knows of ranks, links or threads. Start reading at bytes.h and result.h.
#pragma once

#include "paceline/core/base/bytes.h"
#include "paceline/core/base/crc32c.h"
#include "paceline/core/base/deadline.h"
#include "paceline/core/base/dtype.h"
#include "paceline/core/base/reduce.h"
#include "paceline/core/base/result.h"
#include "paceline/core/base/seed.h"
