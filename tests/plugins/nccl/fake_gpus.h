// Doubles of libcudart and libnccl: devices that are this process's own memory, for ranks that are
// its threads. Streams are in order, events record the content of a stream, and communicators and
// operations become ready some looks after the call, as with a non-blocking NCCL.
#pragma once

#include <set>
#include <string>

#include "paceline/plugins/nccl/functions.h"

namespace paceline::nccl::testing {

// Set by a test before its ranks begin; one test at a time.
struct FakeGpus {
  int devices = 8;
  int looks = 3;               // at a communicator until its launches are on their streams
  bool comes_together = true;  // false: communicators are never made
  std::string refuses_groups;  // not empty: what NCCL says to a group
  bool breaks_down = false;    // every operation ends with a failure
  Status breaks_by = Status::remote_error;
  std::set<const void*> unknown;  // memory that CUDA does not know
};

// With these options from now on. THREAD: any, while no rank runs.
Functions fake_functions(const FakeGpus& options = {});

// A stream that holds unfinished work until it is opened.
cudaStream_t closed_stream();
void open(cudaStream_t stream);

int living_comms();    // that were neither destroyed nor aborted
int aborted_comms();   // since fake_functions()
int living_objects();  // streams and events

}  // namespace paceline::nccl::testing
