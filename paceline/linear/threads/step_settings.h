// The settings that solvers with threads share: how many threads, and the rates of their steps.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "paceline/core/settings/settings.h"

namespace paceline::linear {

// threads, rate, decay.
std::vector<Setting> step_settings();

int threads_in(const Settings& settings);  // auto: the processors that this process may use

// Falls from epoch to epoch.
struct StepRate {
  double first = 0.1, decay = 0.9;
  double of_epoch(std::int64_t epoch) const {
    return first * std::pow(decay, static_cast<double>(epoch));
  }
};
StepRate step_rate_in(const Settings& settings);

}  // namespace paceline::linear
