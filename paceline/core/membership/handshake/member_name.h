// The name of a member of a generation, for texts: its number means little to users.
#pragma once

#include <string>

namespace paceline::membership {

// "rank 3"; "server 0" of members that have a number of `ranks` or above.
std::string member_name(int member, int ranks);

}  // namespace paceline::membership
