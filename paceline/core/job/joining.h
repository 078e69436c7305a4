// Ranks find each other here and become a generation.
#pragma once

#include <memory>

#include "paceline/core/job/job_impl.h"
#include "paceline/core/membership/environment/environment.h"

namespace paceline::job {

// Connects to the store, publishes where this rank listens, and links up with every other rank:
// over shared memory where both are in one host, network namespace and user; else over UCX where
// both have an RDMA device and the plugin; else over TCP. Environment::transport narrows that.
// THROWS Error.
std::unique_ptr<Job::Impl> join(membership::Environment environment);

}  // namespace paceline::job
