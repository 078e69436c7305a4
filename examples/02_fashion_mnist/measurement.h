// What is told about a run: times, agreement of the workers, memory.
#pragma once

#include <torch/torch.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "paceline/core/collective/communicator.h"
#include "paceline/torch/parallel/parallel.h"

// Time of training steps on this worker, and what of it the communication took.
class StepTimer {
 public:
  void start();
  // A step that ended.
  void count(const paceline::StepReport& report);
  void stop();
  bool running() const { return running_; }

  double wall_seconds = 0;
  double in_flight_seconds = 0;  // gradients were under way
  double waited_seconds = 0;     // the training thread waited for them
  // Of gradients that were compressed, and of what travelled of them.
  double coded_bytes = 0, wire_bytes = 0;

 private:
  std::chrono::steady_clock::time_point since_{};
  bool running_ = false;
};

std::vector<double> sums_over_workers(paceline::Communicator& world, std::vector<double> values);

// The fingerprint of the parameters. THROWS paceline::Error (mismatch) when workers differ in a
// single bit.
std::string agreed_sha256(paceline::Communicator& world, const std::vector<at::Tensor>& parameters);

std::vector<std::int64_t> peak_rss_of_workers(paceline::Communicator& world);  // bytes
