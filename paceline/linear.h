// Paceline's linear models on sparse data, in double precision and without torch (docs/solvers):
// losses, problems and the solvers by which ranks find their optimum together.
#pragma once

#include "paceline/core/linear/linear.h"
#include "paceline/paceline.h"
