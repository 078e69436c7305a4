// The door of linear: linear models on sparse data, in double precision, without torch
// (docs/solvers/).
//
// Data come from files (data/libsvm.h) or from the King James Bible (data/king_james.h). A Problem
// (problem/problem.h) is a loss (loss/, a file each) and a regulariser, over Samples
// (data/samples.h: sparse rows with labels). A solver is a file in solvers/, a value in the
// catalogue (solver/solver_catalogue.h), which makes a Solver (solver/solver.h): it works in
// rounds, alone or on the ranks of a group, with samples or features split among them.
// problem/objective.h measures the weights that come out. Threads of one process share weights in
// threads/; machines/ holds protocols between ranks that do not wait for each other. Start reading
// at solvers/sdca.cpp, then solver/cocoa_rounds.cpp.
#pragma once

#include "paceline/core/linear/data/king_james.h"
#include "paceline/core/linear/data/libsvm.h"
#include "paceline/core/linear/data/samples.h"
#include "paceline/core/linear/data/sparse_columns.h"
#include "paceline/core/linear/data/split.h"
#include "paceline/core/linear/loss/loss.h"
#include "paceline/core/linear/problem/objective.h"
#include "paceline/core/linear/problem/problem.h"
#include "paceline/core/linear/solver/solver.h"
#include "paceline/core/linear/solver/solver_catalogue.h"
