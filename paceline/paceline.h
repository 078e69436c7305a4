// Paceline's public face without torch: this process's place in a run, and what its ranks do
// together.
//
//   #include <cstdio>
//   #include "paceline/paceline.h"
//
//   int main() {
//     paceline::Job job = paceline::init();
//     double sum[] = {1.0 + job.rank()};
//     job.world().all_reduce(paceline::buffer_of(sum)).wait();
//     std::printf("rank %d of %d: %g\n", job.rank(), job.world_size(), sum[0]);
//   }
//
//   paceline run -n 2 -- ./sum
//
// Programs include this header, paceline/train.h (training with libtorch), paceline/server.h
// (tables on servers), paceline/linear.h (linear models), and plugins/mpi/mpi.h or
// plugins/nccl/nccl.h for groups of these libraries. Their classes and functions are the API. All
// other headers may move or change between versions.
//
//   Job, init(), run_main()          this rank's place in the run; how it ends (job.h)
//   Communicator, Work               collectives and messages within a group (communicator.h)
//   Buffer, ConstBuffer, buffer_of() memory with its element type (bytes.h)
//   Error, Result, Deadline          failures that name their cause; times to wait until
//   all_gather_bytes(), ...          values of any length (values.h)
//   observe::                        progress, metrics, traces, TensorBoard, Prometheus
//   check_may_be_written()           finds a path that cannot be written before the work is done
#pragma once

#include "paceline/core/base/base.h"
#include "paceline/core/base/durable_file.h"
#include "paceline/core/base/stopwatch.h"
#include "paceline/core/collective/call/work.h"
#include "paceline/core/collective/group/communicator.h"
#include "paceline/core/collective/group/values.h"
#include "paceline/core/job/job.h"
#include "paceline/core/observe/observe.h"
