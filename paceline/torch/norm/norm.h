// The door of norm: layers that normalise over the batches of all ranks.
//
// SyncBatchNorm (sync_batch_norm.h) computes over the global batch; convert_sync_batch_norm.h puts
// it in the place of torch's BatchNorm. Start reading at sync_batch_norm.h.
#pragma once

#include "paceline/torch/norm/convert_sync_batch_norm.h"
#include "paceline/torch/norm/sync_batch_norm.h"
