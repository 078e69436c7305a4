// The options that make a run a pipeline, and those that do not go with one.
#pragma once

#include <string>

#include "options.h"

// The first of --layout with pp, --pipeline, --micro-batches, --partition and --recompute that was
// given, as it was; empty: none, and the network is trained whole.
std::string pipeline_option_of(const Options& options);

// --layout, or what stands for it: stages alone if --partition puts one on several ranks, else
// replicas of the whole model.
std::string layout_of(const Options& options, int world_size);

// Empty: the other options go with a pipeline, or none was asked for.
std::string complaint_about_pipeline(const Options& options);

// Empty: `text` is a schedule of pipelines, with its settings.
std::string complaint_about_pipeline_schedule(const std::string& text);
