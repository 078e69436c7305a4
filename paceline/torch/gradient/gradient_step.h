// GradientStep: the facts of the running step that all parts of gradient averaging share.
#pragma once

#include "paceline/torch/gradient/final_failure.h"
#include "paceline/torch/gradient/passes.h"
#include "paceline/torch/gradient/step_agreement.h"
#include "paceline/torch/gradient/step_figures.h"
#include "paceline/torch/replica/rank_weight.h"

namespace paceline::parallel {

struct GradientStep {
  RankWeight weight;  // of this rank's batch
  StepAgreement facts;
  Passes passes;
  StepFigures figures;
  FinalFailure failure;
};

}  // namespace paceline::parallel
