// Devices as `paceline run --devices` names them, and CUDA_VISIBLE_DEVICES, by which processes see
// these and no others.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "paceline/app/launch/process/environment.h"
#include "paceline/core/base/result.h"

namespace paceline::launch {

inline constexpr const char* kVisibleDevices = "CUDA_VISIBLE_DEVICES";

// "0,1", "GPU-8932f937-d72c,GPU-46abccc3": numbers or UUIDs, each once. The failure (misuse) shows
// the wrong part.
Result<std::vector<std::string>> parse_devices(std::string_view text);

// The value of CUDA_VISIBLE_DEVICES by which a process sees these devices in their order. Where
// the environment has one already, numbers count among its entries, from 0, and a UUID must be
// among them. The failure (misuse) names the device, the variable and the remedy.
Result<std::string> visible_devices(const std::vector<std::string>& devices,
                                    const Environment& environment);

}  // namespace paceline::launch
