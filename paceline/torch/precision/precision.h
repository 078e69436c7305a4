// The door of precision: models that compute in 16 bits (docs/guide/precision.md).
//
// A PrecisionChoice (choice.h) is what DataParallelOptions::precision says. With o1 an Autocast
// (autocast.h) lets libtorch choose the type of each operator; with o2 halve() (masters.h) turns a
// model into 16 bits, and the optimizer steps masters of float32. LossScaling (loss_scaling.h) is
// what Replicas asks in each step, with fp16's dynamic scale. Start reading there.
#pragma once

#include "paceline/torch/precision/autocast.h"
#include "paceline/torch/precision/choice.h"
#include "paceline/torch/precision/loss_scaling.h"
#include "paceline/torch/precision/masters.h"
