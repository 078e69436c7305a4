#include "measurement.h"

#include <sys/resource.h>

#include "paceline/core/base/base.h"
#include "paceline/core/collective/collective.h"
#include "paceline/torch/bridge/bridge.h"
#include "paceline/torch/strategy/strategy.h"

using std::chrono::duration;

void StepTimer::start() {
  since_ = std::chrono::steady_clock::now();
  traffic_at_start_ = world_.traffic();
  running_ = true;
}

void StepTimer::count(const paceline::StepReport& report) {
  if (!running_) return;
  if (reports_tell_) {
    in_flight_seconds += report.under_way_seconds;
    waited_seconds += report.waited_seconds;
  }
  coded_bytes += report.coded_bytes;
  wire_bytes += report.wire_bytes;
}

void StepTimer::stop() {
  if (!running_) return;
  running_ = false;
  wall_seconds += duration<double>(std::chrono::steady_clock::now() - since_).count();
  if (reports_tell_) return;
  const paceline::Traffic traffic = world_.traffic();
  in_flight_seconds += duration<double>(traffic.in_flight - traffic_at_start_.in_flight).count();
  waited_seconds += duration<double>(traffic.waited - traffic_at_start_.waited).count();
}

std::vector<double> sums_over_workers(paceline::Communicator& world, std::vector<double> values) {
  world.all_reduce(paceline::buffer_of(values)).wait();
  return values;
}

std::string agreed_sha256(paceline::Communicator& world, const std::string& own) {
  const std::vector<std::string> all = paceline::all_gather_bytes(world, own);
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] != all[0]) {
      throw paceline::Error({paceline::Fault::mismatch,
                             "the parameters of rank " + std::to_string(rank) +
                                 " differ from those of rank 0 after training; "
                                 "every worker must apply the same updates (parallel.step)",
                             {0, static_cast<int>(rank)}});
    }
  }
  return own;
}

paceline::observe::Metrics exchange_figures(const paceline::StepReport& report) {
  const paceline::replica::ExchangeReport& exchange = report.exchange;
  return {{"exchanges", exchange.exchanges},
          {"exchanged_bytes", exchange.bytes},
          {"period", std::int64_t{exchange.period}},
          {"distance", exchange.distance}};
}

paceline::observe::Metrics server_figures(const paceline::StepReport& report) {
  const paceline::replica::ServerReport& servers = report.servers;
  double sum = 0;
  std::int64_t most = 0;
  for (const auto& [staleness, updates] : servers.staleness) {
    sum += static_cast<double>(staleness) * static_cast<double>(updates);
    most = staleness;
  }
  const double mean = servers.used > 0 ? sum / static_cast<double>(servers.used) : 0;
  return {{"version", servers.version},
          {"used", servers.used},
          {"dropped", servers.dropped},
          {"staleness_mean", mean},
          {"staleness_max", most}};
}

paceline::observe::Metrics sharding_figures(paceline::DataParallel& parallel) {
  const paceline::StepReport& report = parallel.last_step();
  std::int64_t own = 0;
  for (const at::Tensor& one : parallel.parameters())
    own += static_cast<std::int64_t>(one.nbytes());
  return {{"stepped_bytes", own},
          {"gradient_memory_bytes", report.gradient_memory},
          {"gathered_bytes", report.sharded.gathered_bytes},
          {"whole_parameter_bytes", report.sharded.whole_memory}};
}

double forecast_step_seconds(const std::string& synchrony, const torch::nn::Module& model,
                             const paceline::Communicator& world, double compute) {
  namespace strategy = paceline::strategy;
  std::int64_t elements = 0;
  for (const at::Tensor& one : model.parameters()) elements += one.numel();
  for (const at::Tensor& one : model.buffers())
    if (one.is_floating_point()) elements += one.numel();
  const paceline::Dtype dtype =
      paceline::dtype_of(model.parameters().front().scalar_type()).value();
  const strategy::StrategyChoice choice = strategy::parse_strategy(synchrony).value();
  const auto traffic =
      choice.strategy.traffic(choice.settings, {static_cast<double>(elements), world.size()});
  return strategy::seconds_per_step(traffic, compute, strategy::price_on(world, dtype));
}

std::vector<std::int64_t> of_all_workers(paceline::Communicator& world, std::int64_t own) {
  const std::int64_t figure[] = {own};
  std::vector<std::int64_t> all(static_cast<std::size_t>(world.size()));
  world.all_gather(paceline::const_buffer_of(figure), paceline::buffer_of(all)).wait();
  return all;
}

std::vector<std::int64_t> peak_rss_of_workers(paceline::Communicator& world) {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return of_all_workers(world, std::int64_t{usage.ru_maxrss} * 1024);
}
