// Records the model of a training's steps as a file, for `paceline profile`.
#pragma once

#include <memory>
#include <span>

#include "paceline/core/collective/group/communicator.h"
#include "paceline/core/job/job.h"
#include "paceline/core/observe/model_recorder.h"
#include "paceline/torch/replica/parts/model_parts.h"

namespace paceline::parallel {

// Records the model from the gradients of `dense`. Returns nothing unless the environment asks for
// it (PACELINE_RECORD), and this is rank 0 of the job and of the group. THROWS Error (io): the file
// cannot be written.
std::unique_ptr<observe::ModelRecorder> recorder_of(std::span<const Parameter> dense,
                                                    const Communicator& group, Job* job);

}  // namespace paceline::parallel
