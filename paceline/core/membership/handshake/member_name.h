// The names of members of a generation, for texts: their numbers mean little to users.
#pragma once

#include <string>
#include <vector>

namespace paceline::membership {

// "rank 3"; "server 0" of members that have a number of `ranks` or above.
std::string member_name(int member, int ranks);

// "rank 3"; "ranks 1, 2"; "ranks 0, 2 and server 0".
std::string member_names(const std::vector<int>& members, int ranks);

}  // namespace paceline::membership
