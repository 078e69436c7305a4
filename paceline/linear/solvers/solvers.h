// The door of solvers: a file for each method by its name, without a header of its own.
//
// Each is a value in the catalogue (solver_catalogue.h), from which parse_solver() takes it. They
// split samples or features among ranks, or share weights among threads (docs/solvers tells which).
// Start reading at sdca.cpp, then at cocoa.cpp with the rounds behind it.
#pragma once

#include "paceline/linear/solver/solver_catalogue.h"
