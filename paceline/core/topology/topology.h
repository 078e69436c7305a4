// The door of topology: hosts and links as values. At present: what a link costs (prices.h).
#pragma once

#include "paceline/core/topology/prices.h"
