// The door of topology: hosts and links as values, and their costs.
//
// hosts.h tells which ranks share a host and what kind of link two ranks have; prices.h the cost of
// a message in the alpha-beta-gamma model; profile.h all costs on these machines, measured or built
// in, and their JSON. Nothing here measures, reads a file or knows of programs: the command `bench
// calibrate` measures, `collective/price/choice.h` decides. Start reading at hosts.h.
#pragma once

#include "paceline/core/topology/hosts.h"
#include "paceline/core/topology/prices.h"
#include "paceline/core/topology/profile.h"
