#include "paceline/core/observe/prometheus.h"

#include <fmt/format.h>
#include <prometheus/counter.h>
#include <prometheus/exposer.h>
#include <prometheus/gauge.h>
#include <prometheus/registry.h>

#include <exception>
#include <utility>

#include "paceline/core/base/result.h"

namespace paceline::observe {

struct PrometheusEndpoint::Impl {
  std::map<std::string, std::string> labels;
  std::shared_ptr<prometheus::Registry> registry = std::make_shared<prometheus::Registry>();
  std::unique_ptr<prometheus::Exposer> exposer;
};

PrometheusEndpoint::PrometheusEndpoint(const std::string& address,
                                       std::map<std::string, std::string> labels)
    : impl_(std::make_unique<Impl>()) {
  impl_->labels = std::move(labels);
  constexpr std::size_t kThreads = 1;
  try {
    // civetweb takes a bare port to mean every interface.
    impl_->exposer = std::make_unique<prometheus::Exposer>(
        address.starts_with(':') ? address.substr(1) : address, kThreads);
  } catch (const std::exception& error) {
    throw Error({Fault::io,
                 fmt::format("cannot serve Prometheus on {}: {}. Name a free port of this host, as "
                             "in 127.0.0.1:9400",
                             address, error.what()),
                 {}});
  }
  impl_->exposer->RegisterCollectable(impl_->registry);
}

PrometheusEndpoint::~PrometheusEndpoint() = default;

int PrometheusEndpoint::port() const {
  return impl_->exposer->GetListeningPorts().at(0);
}

void PrometheusEndpoint::gauge(const std::string& name, const std::string& help, double value) {
  prometheus::BuildGauge()
      .Name(name)
      .Help(help)
      .Register(*impl_->registry)
      .Add(impl_->labels)
      .Set(value);
}

void PrometheusEndpoint::counter(const std::string& name, const std::string& help, double total) {
  auto& counter = prometheus::BuildCounter()
                      .Name(name)
                      .Help(help)
                      .Register(*impl_->registry)
                      .Add(impl_->labels);
  counter.Increment(total - counter.Value());
}

}  // namespace paceline::observe
