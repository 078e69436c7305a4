// The door of replica: what a replica of a model is, and how replicas are held equal.
//
// A model is taken apart into parameters and buffers (parts/model_parts.h), compared with the
// models of the other ranks (agreement.h, equality_watch.h) and copied to them (broadcast.h);
// parts/parameter_writes.h sees what the program writes into it, and parts/placement.h tells which
// part of a tensor each rank holds. The sub-room equal/ compares replicas (replica_check.h) and
// brings tensors together (coalesced.h). What a user says of a DataParallel is
// data_parallel_options.h, with the optimizers that it may own (optimizer_factory.h,
// per_parameter_optimizers.h); optimizer_mean.h takes the mean over all ranks of what optimizers
// keep; what a step did is step_report.h; clip_grad_norm.h clips mean gradients; the sub-room
// grads/ tells where they lie (gradient_note.h), what becomes of a step in which one is not finite
// (finite_watch.h) and of a training in 16 bits (mixed_precision.h); waits that cannot end are
// ended by watch/wait_watch.h.
//
// Replicas (replicas.h) holds this together: hooks on the parameters (gradient_hooks.h), the weight
// of a batch (batch_weight.h, rank_weight.h), the leaves that optimizers step (leaves.h, callers_optimizers.h),
// the gates between gradients and their update (gated_update.h, ended_step.h), comparisons now and
// then (equality_watch.h), and the model for which all replicas stand (consensus.h). A Synchrony
// (synchrony.h) keeps the replicas in step: the rooms above implement it. Start reading at
// synchrony.h, then replicas.h.
#pragma once

#include "paceline/torch/replica/batch_weight.h"
#include "paceline/torch/replica/broadcast.h"
#include "paceline/torch/replica/clip_grad_norm.h"
#include "paceline/torch/replica/data_parallel_options.h"
#include "paceline/torch/replica/equal/coalesced.h"
#include "paceline/torch/replica/equal/replica_check.h"
#include "paceline/torch/replica/grads/finite_watch.h"
#include "paceline/torch/replica/grads/gradient_note.h"
#include "paceline/torch/replica/grads/mixed_precision.h"
#include "paceline/torch/replica/optimizer_mean.h"
#include "paceline/torch/replica/parts/model_parts.h"
#include "paceline/torch/replica/parts/placement.h"
#include "paceline/torch/replica/replicas.h"
#include "paceline/torch/replica/step_report.h"
#include "paceline/torch/replica/synchrony.h"
#include "paceline/torch/replica/watch/wait_watch.h"
