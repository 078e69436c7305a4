// The door of strategy: how replicas are kept in step (docs/strategies/).
//
// A strategy is a file in strategies/, a value in the catalogue (local/strategy_catalogue.h): its
// settings, its traffic, and how its Synchrony is made; make_synchrony.h makes the one that a text
// names. Where each rank steps by its own gradients, LocalSteps (local/local_steps.h) is the
// Synchrony, and the strategy is a LocalMethod (local/local_method.h), which works on a
// LocalReplica (local/local_replica.h). Rules that bear faulty gradients (rules/robust_rule.h) are
// functions of plain rows. Where the job's servers keep the parameters, each model of consistency
// is a strategy (server/server_strategies.cpp), and ServerSynchrony (server/server_synchrony.h) is
// the Synchrony; a rank may be waited for (server/others_wait.h). Ensemble (ensemble.h), which needs
// forward passes, stands beside the strategy `none`; Sandblaster (sandblaster.h), which makes
// iterations on all samples, stands by itself. What a step should take follows from a strategy's
// traffic (local/forecast.h). Start reading at strategies/local_sgd.cpp.
#pragma once

#include "paceline/torch/strategy/ensemble.h"
#include "paceline/torch/strategy/local/forecast.h"
#include "paceline/torch/strategy/local/strategy_catalogue.h"
#include "paceline/torch/strategy/make_synchrony.h"
#include "paceline/torch/strategy/sandblaster.h"
