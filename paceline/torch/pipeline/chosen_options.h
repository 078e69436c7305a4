// A Pipeline chooses by the times and bytes of its layers: its cut, its micro-batches, the
// segments of its recomputation (docs/guide/pipelines.md).
#pragma once

#include "paceline/core/mesh/mesh.h"
#include "paceline/torch/pipeline/layers.h"
#include "paceline/torch/pipeline/pipeline_options.h"

namespace paceline::pipeline {

// The options with a partition, a number and segments in place of "automatic", a profile's file,
// `automatic` and "auto", so that a run has the bits of one to which these were given by hand. Rank
// 0 of the mesh chooses, and all ranks have its choice; segments are those of this rank's stage.
// Collective if there is something to choose. THROWS Error (misuse), on all ranks: the profile
// cannot be read or is of another model; rank 0 has no sample; what timing a layer threw; a
// schedule, or ranks that share samples or stages, with which nothing can be chosen.
//
// COST: some 7 passes through each layer for each of 1 to 6 sizes of micro-batches, on rank 0.
PipelineOptions chosen(const Layers& layers, DeviceMesh& mesh, PipelineOptions options);

}  // namespace paceline::pipeline
