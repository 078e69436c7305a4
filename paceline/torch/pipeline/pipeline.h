// The door of pipeline: models whose layers stand on several ranks.
//
// Layers (layers.h) is a model as a list of functions that make its layers; a StageModule is some
// of them, made. A Pipeline (pipeline_training.h) is what users hold: it cuts the layers, makes
// this rank's stages with a DataParallel around each, and carries out the order that a schedule of
// core/pipeline gives. stages_of_rank.h computes the operations, with tensors in and out;
// cut_shapes.h knows what crosses the cuts. Without a flush an AsynchronousRun (asynchronous_run.h)
// does it instead, on clones of the stage, one for each version of its weights (weight_versions.h).
// made_stages.h is for checkpoints; layer_recorder.h writes the layers of a run down, whose times
// and bytes `measured/` takes. recompute/ stands alone: it computes activations again in any
// training. Start reading at pipeline_training.h.
#pragma once

#include "paceline/torch/pipeline/layers.h"
#include "paceline/torch/pipeline/pipeline_training.h"
#include "paceline/torch/pipeline/recompute/recompute.h"
