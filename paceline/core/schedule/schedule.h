// The door of schedule: which gradient travels when, and together with which others, as a
// value.
//
// A model (model.h: tensors and the computation around them) and the costs of transfers (costs.h)
// make a plan (gradient_plan.h), by a policy (policies/ has a file for each, policy_catalogue.h
// lists them). The simulator of an iteration (simulate.h) prices a plan without a network, and a
// gradient path (gradient_path.h) carries it out by a MessageTransport (message_transport.h,
// push_pull.h); computation can be replayed on top of that (replay.h, trial.h). A training run that
// plans for itself observes its steps (observed_model.h), measures its links (measured_costs.h),
// takes a policy by its name (policy_catalogue.h), tries two plans where their forecasts are close
// and checks now and then whether step times have drifted (step_times.h). If a compression has a
// menu, it also looks at gradients (gradient_sums.h), and chooses for each tensor (chosen_offers.h,
// gradient_sums.h). A recorded model is a file (model_file.h). Nothing here depends on torch. Start
// reading at gradient_plan.h. buckets.h is the grouping that data parallel training uses before
// anything is measured; dispatch.h tells which message of a plan goes next.
#pragma once

#include "paceline/core/schedule/adapt/chosen_offers.h"
#include "paceline/core/schedule/adapt/gradient_sums.h"
#include "paceline/core/schedule/adapt/measured_costs.h"
#include "paceline/core/schedule/adapt/observed_model.h"
#include "paceline/core/schedule/adapt/step_times.h"
#include "paceline/core/schedule/order/agreed_plan.h"
#include "paceline/core/schedule/order/buckets.h"
#include "paceline/core/schedule/order/costs.h"
#include "paceline/core/schedule/order/gradient_plan.h"
#include "paceline/core/schedule/order/model.h"
#include "paceline/core/schedule/path/gradient_path.h"
#include "paceline/core/schedule/path/message_transport.h"
#include "paceline/core/schedule/policies/policies.h"
#include "paceline/core/schedule/policies/policy_catalogue.h"
#include "paceline/core/schedule/policies/survey_methods.h"
#include "paceline/core/schedule/replay/model_file.h"
#include "paceline/core/schedule/replay/replay.h"
#include "paceline/core/schedule/replay/replay_models.h"
#include "paceline/core/schedule/replay/trial.h"
#include "paceline/core/schedule/simulation/bounds.h"
#include "paceline/core/schedule/simulation/simulate.h"
