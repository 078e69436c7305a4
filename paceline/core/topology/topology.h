// The door of topology: hosts and links as values, and what they cost.
//
// Which ranks share a host and what kind of link two ranks have (hosts.h); what a message costs in
// the alpha-beta-gamma model (prices.h); what all of it costs on these machines, measured or built
// in, and its JSON (profile.h). Nothing here measures, reads a file or knows of programs: the
// command `bench calibrate` measures, `collective/choice.h` decides. Start reading at hosts.h.
#pragma once

#include "paceline/core/topology/hosts.h"
#include "paceline/core/topology/prices.h"
#include "paceline/core/topology/profile.h"
