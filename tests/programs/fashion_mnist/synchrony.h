// A loop has to know this of the synchrony of its replicas.
#pragma once

#include <cstdint>
#include <string>

#include "paceline/torch/parallel/parallel.h"
#include "paceline/torch/strategy/strategy.h"
#include "steps.h"

// REQUIRES: DataParallel takes this synchrony.
inline bool keeps_parameters_on_servers(const std::string& synchrony) {
  return paceline::strategy::parse_strategy(synchrony).value().on_servers();
}

// Whether workers make as many steps as each other.
inline bool makes_equal_steps(const std::string& synchrony) {
  const std::string name = synchrony.substr(0, synchrony.find(':'));
  const bool is_centre_on_server = synchrony.find("centre=server") != std::string::npos;
  return name != "async_gossip" && name != "asp" && name != "staleness_aware" &&
         name != "dc_asgd" && name != "downpour" && name != "backup_workers" && name != "timeout" &&
         !is_centre_on_server;
}

// Makes a step; again, if servers dropped what it pushed, so that no batch is lost. Returns the
// loss.
inline double make_step(Steps& making, const paceline::DataParallel& parallel, std::int64_t step,
                        const PartOfBatch& part, double rate) {
  while (true) {
    const std::int64_t dropped = parallel.last_step().servers.dropped;
    const double loss = making.make(step, part, rate);
    if (parallel.last_step().servers.dropped <= dropped) return loss;
  }
}
