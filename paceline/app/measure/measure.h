// The door of measure: how long operations take, candidates against each other and against the
// physical yardstick.
//
// compare() (comparison.h) runs candidates (candidate.h) on a communicator in alternating blocks,
// in the same processes, because a machine has moods that last minutes: only ratios of things that
// alternate mean much. Every rank rewrites its memory before an operation and reads it after
// (contestant.h, pattern.h), untimed; an operation lasts from a start line (start_line.h) that all
// ranks leave together until its slowest rank is done. The yardstick (yardstick.h) is the loop that
// no program on one host can be much faster than. What is made of the figures, tables, files and
// choices, is the callers' affair. calibrate() (calibration.h) makes a profile of such comparisons.
// Start reading at comparison.h.
#pragma once

#include "paceline/app/measure/calibration.h"
#include "paceline/app/measure/candidate.h"
#include "paceline/app/measure/comparison.h"
#include "paceline/app/measure/quantile.h"
