// The failures of a run on a job's links, told as those of the call in which they were found.
#pragma once

#include <fmt/format.h>

#include <optional>
#include <string>

#include "paceline/core/coordination/machine_run.h"
#include "paceline/core/job/job_links.h"

namespace paceline::server {

inline Failure in(const std::string& what, Failure failure) {
  failure.what = fmt::format("{}: {}", what, failure.what);
  return failure;
}

// Throws what has ended the generation of the run, if anything has.
inline void check_alive(const coordination::MachineRun& run, const std::string& what) {
  try {
    job::check_alive(run.links());
  } catch (const Error& error) {
    throw Error(in(what, error.failure()));
  }
}

// Throws what the machine of the run has found, if anything. A text that the machine has from
// another member tells by itself what it is about.
inline void check_found(const coordination::MachineRun& run, const std::optional<Failure>& found,
                        const std::string& what) {
  if (!found) return;
  Failure failure = run.cause_of(*found);
  if (failure.fault == Fault::peer_lost) failure = in(what, std::move(failure));
  throw Error(std::move(failure));
}

}  // namespace paceline::server
