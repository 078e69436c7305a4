// The door of checkpoint: files that hold the state of a run, and the protocol by which they become
// durable.
//
// A checkpoint is a directory with a manifest (manifest.h) and files of tensors (tensor_file.h);
// checkpoint_directory.h commits it so that a crash leaves the old one or the new one, and
// verify_checkpoint.h finds every byte that has changed since (shape.h checks sizes).
// checkpoint_reader.h gives the tensors, and compare_checkpoints.h tells in which two checkpoints
// differ. A job holds its directory by directory_lock.h; save_agreement.h shares the tensors among
// the ranks that write, and is how these agree. Nothing here sends anything. Start reading at
// checkpoint_directory.h.
#pragma once

#include "paceline/core/checkpoint/checkpoint_directory.h"
#include "paceline/core/checkpoint/checkpoint_reader.h"
#include "paceline/core/checkpoint/compare_checkpoints.h"
#include "paceline/core/checkpoint/directory_lock.h"
#include "paceline/core/checkpoint/manifest.h"
#include "paceline/core/checkpoint/save_agreement.h"
#include "paceline/core/checkpoint/shape.h"
#include "paceline/core/checkpoint/tensor_file.h"
#include "paceline/core/checkpoint/verify_checkpoint.h"
