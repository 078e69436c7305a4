#include "reporters.h"

#include <cstdio>

#include "paceline/core/base/base.h"
#include "paceline/core/base/durable_file.h"
#include "paceline/core/collective/group/communicator.h"
#include "paceline/core/job/job.h"

namespace observe = paceline::observe;

namespace {

// The address at which this worker serves, from "9400" or "0.0.0.0:9400"; each worker of a host has
// its own port.
std::string prometheus_address(const std::string& given, int local_rank) {
  const auto colon = given.rfind(':');
  const std::string host = colon == std::string::npos ? "127.0.0.1" : given.substr(0, colon);
  const int port = std::stoi(given.substr(colon == std::string::npos ? 0 : colon + 1));
  return host + ":" + std::to_string(port + local_rank);
}

}  // namespace

Reporters::Reporters(paceline::Job& job, const Options& options, std::int64_t steps)
    : job_(job), trace_path_(options.trace) {
  if (!options.trace.empty()) job.trace().enable();
  if (!options.prometheus.empty()) {
    prometheus_ = std::make_unique<observe::PrometheusEndpoint>(
        prometheus_address(options.prometheus, job.local_rank()),
        std::map<std::string, std::string>{{"rank", std::to_string(job.rank())}});
  }
  if (job.rank() != 0) return;
  if (!options.trace.empty()) paceline::check_may_be_written("trace file", options.trace);
  if (!options.save.empty()) paceline::check_may_be_written("file of parameters", options.save);
  if (!options.metrics.empty()) metrics_ = std::make_unique<observe::MetricsFile>(options.metrics);
  if (!options.tensorboard.empty())
    tensorboard_ = std::make_unique<observe::TensorBoardFile>(options.tensorboard);
  progress_.emplace(stdout, steps, observe::ProgressOptions{.live = observe::is_terminal(stdout)});
}

void Reporters::step(std::int64_t step, std::int64_t samples, double loss) {
  const auto now = std::chrono::steady_clock::now();
  const double seconds = std::chrono::duration<double>(now - last_step_).count();
  last_step_ = now;
  own_samples_ += static_cast<double>(samples) / job_.world_size();
  job_.report(step, own_samples_, loss);
  if (progress_) progress_->update(step, samples, loss);
  if (metrics_) metrics_->write({{"event", "step"}, {"step", step}, {"loss_of_rank_0", loss}});
  if (tensorboard_)
    tensorboard_->write(step,
                        {{"train/loss_of_rank_0", loss},
                         {"train/samples_per_second", static_cast<double>(samples) / seconds}});
  if (prometheus_) {
    const paceline::Traffic traffic = job_.world().traffic_of_all_groups();
    const auto in_seconds = [](auto time) { return std::chrono::duration<double>(time).count(); };
    prometheus_->gauge("paceline_loss", "Loss of the last step on this rank", loss);
    prometheus_->gauge("paceline_step_seconds", "Time of the last step", seconds);
    prometheus_->counter("paceline_steps_total", "Steps done", static_cast<double>(step));
    prometheus_->counter("paceline_operations_total", "Operations that ended",
                         static_cast<double>(traffic.operations));
    prometheus_->counter("paceline_sent_bytes_total", "Payload sent to other ranks",
                         static_cast<double>(traffic.bytes_sent));
    prometheus_->counter("paceline_in_flight_seconds_total", "Time with an operation in flight",
                         in_seconds(traffic.in_flight));
    prometheus_->counter("paceline_waited_seconds_total",
                         "Time the training thread waited for operations",
                         in_seconds(traffic.waited));
  }
}

void Reporters::epoch(std::int64_t step, double seconds, double train_loss, double test_accuracy) {
  if (progress_) progress_->pause();
  if (metrics_)
    metrics_->write({{"event", "epoch"},
                     {"step", step},
                     {"train_seconds", seconds},
                     {"train_loss", train_loss},
                     {"test_accuracy", test_accuracy}});
  if (tensorboard_)
    tensorboard_->write(step, {{"train/loss", train_loss}, {"test/accuracy", test_accuracy}});
  last_step_ = std::chrono::steady_clock::now();
}

void Reporters::summary(const observe::Metrics& metrics) {
  if (metrics_) metrics_->write(metrics);
}

void Reporters::write_trace() {
  if (trace_path_.empty()) return;
  const auto traces = observe::gather_traces(job_.world(), job_.trace());
  if (job_.rank() == 0) observe::write_trace(trace_path_, traces);
}
