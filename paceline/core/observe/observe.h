// The door of observe: the output of a run for people and programs.
//
// progress.h draws the progress of a loop, on a terminal or as plain lines; metrics.h writes one
// JSON object a line for programs to read; tensorboard.h writes scalars for TensorBoard,
// prometheus.h serves figures to Prometheus, trace_file.h writes the spans of all ranks for
// Perfetto; log_plot.h draws curves and timeline_plot.h spans of time as SVG;
// model_recorder.h writes the model that steps have shown; host_ranks.h looks at the
// ranks of this host from outside. They only render what they are told: they measure nothing.
#pragma once

#include "paceline/core/observe/host_ranks.h"
#include "paceline/core/observe/log_plot.h"
#include "paceline/core/observe/metrics.h"
#include "paceline/core/observe/model_recorder.h"
#include "paceline/core/observe/progress.h"
#include "paceline/core/observe/prometheus.h"
#include "paceline/core/observe/rank_trace.h"
#include "paceline/core/observe/tensorboard.h"
#include "paceline/core/observe/timeline_plot.h"
#include "paceline/core/observe/trace_file.h"
