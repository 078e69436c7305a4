// The door of schedule: order as a value. Which gradient travels when, and together with which
// others.
//
// A model (model.h: tensors and the computation around them) and what transfers cost (costs.h) make
// a plan (plan.h), by one of five policies (policies.h, general.h). A plan is priced by the
// simulator of an iteration (simulate.h) without a network, and carried out by a gradient path
// (gradient_path.h), upon which computation can be replayed (replay.h, trial.h). A training run
// that plans for itself observes its steps (observed_model.h), measures its links
// (measured_costs.h), takes a policy by its name (policy_catalogue.h), and looks now and then
// whether all is as it was (drift.h). Where a compression has a menu, it also looks at gradients
// (gradient_sums.h), and chooses for each tensor (chosen_offers.h, offer_choice.h). A model that
// was recorded is a file (model_file.h). Nothing here knows of torch. Start reading at plan.h.
// buckets.h is the grouping that data parallel training uses before anything is measured.
#pragma once

#include "paceline/core/schedule/agreed_plan.h"
#include "paceline/core/schedule/bounds.h"
#include "paceline/core/schedule/buckets.h"
#include "paceline/core/schedule/chosen_offers.h"
#include "paceline/core/schedule/costs.h"
#include "paceline/core/schedule/drift.h"
#include "paceline/core/schedule/general.h"
#include "paceline/core/schedule/gradient_path.h"
#include "paceline/core/schedule/gradient_sums.h"
#include "paceline/core/schedule/measured_costs.h"
#include "paceline/core/schedule/model.h"
#include "paceline/core/schedule/model_file.h"
#include "paceline/core/schedule/observed_model.h"
#include "paceline/core/schedule/offer_choice.h"
#include "paceline/core/schedule/plan.h"
#include "paceline/core/schedule/policies.h"
#include "paceline/core/schedule/policy_catalogue.h"
#include "paceline/core/schedule/replay.h"
#include "paceline/core/schedule/replay_models.h"
#include "paceline/core/schedule/simulate.h"
#include "paceline/core/schedule/trial.h"
