// The door of collective: what ranks do together.
//
// A collective is a program (program.h), a value that one small file under algorithms/<operation>/
// returns; algorithm_catalogue.h lists them, verify.h proves them, cost.h prices them, choice.h
// picks one. A Communicator (communicator.h) takes the calls; behind it a group (group.h) compares
// them with the other ranks' calls and an execution (execution.h) runs the program on the links, or
// an engine (engine.h), a library of somebody else's, carries the data. Strings and bytes of any
// length go by values.h. Start reading at communicator.h, then program.h, then execution.h.
#pragma once

#include "paceline/core/collective/call/work.h"
#include "paceline/core/collective/group/communicator.h"
#include "paceline/core/collective/group/values.h"
#include "paceline/core/collective/price/cost.h"
#include "paceline/core/collective/program/algorithm_catalogue.h"
#include "paceline/core/collective/program/program.h"
#include "paceline/core/collective/proof/verify.h"
