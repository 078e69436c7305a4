// The door of measure: measures how long operations take, compared with each other and with the
// physical yardstick.
//
// compare() (comparison.h) runs candidates (contestant.h) on a communicator in alternating blocks,
// in the same processes, because a machine's speed changes for minutes at a time: only ratios of
// candidates that alternate mean much. Every rank rewrites its memory before an operation and reads
// it after (contestant.h, pattern.h), untimed; an operation lasts from a start line (start_line.h)
// that all ranks leave together until its slowest rank is done. The yardstick (yardstick.h) is a
// loop that no program on one host can beat by much. Callers turn the figures into tables, files
// and choices. The operations of servers have contestants too (contestant.h), and the workers'
// clocks are counted under each model of consistency, beside a forecast of the same machines in
// virtual time (clock_forecast.h); sparse_rates.h counts the rows of sparse tables,
// server_pauses.h tells how long workers stand still when a server is killed. calibrate()
// (calibration.h) makes a profile of such comparisons. pin.h keeps a thread on a processor of its own. Start reading at comparison.h.
#pragma once

#include "paceline/app/measure/calibration.h"
#include "paceline/app/measure/clock_forecast.h"
#include "paceline/app/measure/comparison.h"
#include "paceline/app/measure/contestant.h"
#include "paceline/app/measure/quantile.h"
#include "paceline/app/measure/server_pauses.h"
#include "paceline/app/measure/sparse_rates.h"
