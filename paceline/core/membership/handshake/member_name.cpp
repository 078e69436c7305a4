#include "paceline/core/membership/handshake/member_name.h"

#include <fmt/format.h>

namespace paceline::membership {

std::string member_name(int member, int ranks) {
  return member < ranks ? fmt::format("rank {}", member) : fmt::format("server {}", member - ranks);
}

}  // namespace paceline::membership
