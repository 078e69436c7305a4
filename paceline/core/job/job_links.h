// The links of a job, for rooms whose machines run among its members beside its communicators.
#pragma once

#include <chrono>
#include <memory>

#include "paceline/core/job/job.h"
#include "paceline/core/membership/generation/generation.h"
#include "paceline/core/transport/reactor/reactor.h"

namespace paceline::job {

struct JobLinks {
  std::shared_ptr<transport::Reactor> reactor;
  std::shared_ptr<membership::Generation> generation;
  std::chrono::milliseconds timeout;     // of an operation
  std::chrono::milliseconds stall_time;  // a wait of this length is told
};

// They may outlive the job, which says goodbye to its peers when it ends.
JobLinks links_of(Job& job);

// Throws what has ended the generation, if it fails or has failed. THREAD: not the driver.
void check_alive(const JobLinks& links);

}  // namespace paceline::job
