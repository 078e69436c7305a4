// The door of data: data sets in memory, and the choice of samples for each rank.
//
//   idx.h                   the IDX file format (MNIST and its relatives), plain or gzip; the data
//                           set of the example
//   sampler.h               which samples a rank takes: of a global batch, or of the whole set;
//                           with replacement, by random numbers without a state
//   distributed_sampler.h   the same for torch::data::make_data_loader
//
// Nothing here communicates: every rank computes the same order from the same seed. Start reading
// at sampler.h.
#pragma once

#include "paceline/torch/data/distributed_sampler.h"
#include "paceline/torch/data/idx.h"
#include "paceline/torch/data/sampler.h"
