// Shows a run while it goes on: files of metrics, TensorBoard, Prometheus, a trace.
#pragma once

#include <chrono>
#include <memory>
#include <optional>

#include "options.h"
#include "paceline/core/job/job.h"
#include "paceline/core/observe/observe.h"

class Reporters {
 public:
  // Rank 0 writes files; every rank serves its own figures to Prometheus, rank r of a host at the
  // given port + r. THROWS paceline::Error when one of them cannot be written or served.
  Reporters(paceline::Job& job, const Options& options, std::int64_t steps);

  void step(std::int64_t step, std::int64_t samples, double loss);
  // `seconds`: of the timed steps so far.
  void epoch(std::int64_t step, double seconds, double train_loss, double test_accuracy);
  void summary(const paceline::observe::Metrics& metrics);
  void end_progress() { progress_.reset(); }
  void write_trace();  // collective over all workers

 private:
  paceline::Job& job_;
  const std::string trace_path_;
  std::unique_ptr<paceline::observe::MetricsFile> metrics_;
  std::unique_ptr<paceline::observe::TensorBoardFile> tensorboard_;
  std::unique_ptr<paceline::observe::PrometheusEndpoint> prometheus_;
  std::optional<paceline::observe::Progress> progress_;
  double own_samples_ = 0;  // an estimate: its share of the global batches
  std::chrono::steady_clock::time_point last_step_ = std::chrono::steady_clock::now();
};
