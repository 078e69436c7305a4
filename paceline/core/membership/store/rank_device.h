// RankDevice: the accelerator that a rank has, as the others know it before any call names one.
#pragma once

#include <string>

namespace paceline::membership {

struct RankDevice {
  std::string identity = {};  // the same in all processes that see it; empty: the rank has none
  bool has_nccl = false;      // and NCCL, by the plugin of that name
  bool operator==(const RankDevice&) const = default;
};

}  // namespace paceline::membership
