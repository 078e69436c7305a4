// Serves figures of this process to Prometheus
// (https://prometheus.io/docs/instrumenting/exposition_formats) over HTTP, by prometheus-cpp.
#pragma once

#include <map>
#include <memory>
#include <string>

namespace paceline::observe {

class PrometheusEndpoint {
 public:
  // Serves http://<address>/metrics until this is destroyed. `address` is "127.0.0.1:9400" or
  // ":9400" (every interface); port 0 means any free one. Every figure carries `labels`, {{"rank",
  // "0"}}. THROWS Error (io): the address cannot be used.
  PrometheusEndpoint(const std::string& address, std::map<std::string, std::string> labels);
  ~PrometheusEndpoint();
  PrometheusEndpoint(const PrometheusEndpoint&) = delete;
  PrometheusEndpoint& operator=(const PrometheusEndpoint&) = delete;

  int port() const;
  // `name` follows Prometheus's rules ("paceline_steps_total"), and always has the same kind.
  // THREAD: any.
  void gauge(const std::string& name, const std::string& help, double value);
  void counter(const std::string& name, const std::string& help,
               double total);  // REQUIRES: never less than before

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace paceline::observe
