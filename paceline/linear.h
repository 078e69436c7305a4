// Paceline's linear models on sparse data, in double precision and without torch (docs/solvers):
// losses, problems and the solvers by which ranks find their optimum together. Programs link
// paceline::linear.
//
// A Problem (problem.h) is a loss (a file each beside loss.h) and a regulariser, over Samples
// (samples.h: sparse rows with labels), which come from files (libsvm.h). A solver is a file beside
// solvers.h, a value in the catalogue (solver_catalogue.h), which makes a Solver (solver.h): it
// works in rounds, alone or on the ranks of a group, with samples or features split among them.
// objective.h measures the weights that come out.
#pragma once

#include "paceline/linear/data/data.h"
#include "paceline/linear/loss/loss.h"
#include "paceline/linear/problem/objective.h"
#include "paceline/linear/problem/problem.h"
#include "paceline/linear/solver/solver.h"
#include "paceline/linear/solvers/solvers.h"
#include "paceline/paceline.h"
