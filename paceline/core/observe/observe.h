// The door of observe: what a run shows of itself.
//
// progress.h draws how far a loop has come, on a terminal or as plain lines; metrics.h writes one
// JSON object a line for programs to read. Both only render what they are told: they measure
// nothing and know of no rank.
#pragma once

#include "paceline/core/observe/metrics.h"
#include "paceline/core/observe/progress.h"
