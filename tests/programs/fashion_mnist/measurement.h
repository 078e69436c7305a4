// The figures of a run: times, agreement of the workers, memory.
#pragma once

#include <torch/torch.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "paceline/core/collective/group/communicator.h"
#include "paceline/core/observe/observe.h"
#include "paceline/torch/parallel/parallel.h"

// Measures the time of training steps on this worker, and the part that communication took.
class StepTimer {
 public:
  // `world` tells the times of exchanges of parameters where a StepReport does not.
  StepTimer(const paceline::Communicator& world, bool reports_tell)
      : world_(world), reports_tell_(reports_tell) {}
  void start();
  // Counts a step that has ended.
  void count(const paceline::StepReport& report);
  void stop();
  bool running() const { return running_; }

  double wall_seconds = 0;
  double in_flight_seconds = 0;  // gradients, or parameters, were under way
  double waited_seconds = 0;     // the training thread waited for them
  // The bytes of gradients before compression, and the bytes that travelled for them.
  double coded_bytes = 0, wire_bytes = 0;

 private:
  const paceline::Communicator& world_;
  const bool reports_tell_;
  paceline::Traffic traffic_at_start_;
  std::chrono::steady_clock::time_point since_{};
  bool running_ = false;
};

std::vector<double> sums_over_workers(paceline::Communicator& world, std::vector<double> values);

// The fingerprint of the parameters, of which this worker has `own`. THROWS paceline::Error
// (mismatch) when workers differ in a single bit.
std::string agreed_sha256(paceline::Communicator& world, const std::string& own);

// The memory and the gathers of the last step with --zero, on this rank.
paceline::observe::Metrics sharding_figures(paceline::DataParallel& parallel);

// The exchanges of the strategy that keeps replicas in step, on this rank.
paceline::observe::Metrics exchange_figures(const paceline::StepReport& report);

// The updates of this rank by servers, of a synchrony that keeps parameters there.
paceline::observe::Metrics server_figures(const paceline::StepReport& report);

// The seconds that a step of this synchrony should take on the links of `world`, if it computes for
// `compute` seconds.
double forecast_step_seconds(const std::string& synchrony, const torch::nn::Module& model,
                             const paceline::Communicator& world, double compute);

// The figures of all workers, by rank.
std::vector<std::int64_t> of_all_workers(paceline::Communicator& world, std::int64_t own);

std::vector<std::int64_t> peak_rss_of_workers(paceline::Communicator& world);  // bytes
