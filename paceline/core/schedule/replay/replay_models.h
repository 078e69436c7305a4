// The survey's three networks as schedules see them (docs/schedules/README.md): every tensor of
// the real network, in its shape, with its share of the seconds measured on an RTX 2080 Ti.
#pragma once

#include <string_view>
#include <vector>

#include "paceline/core/schedule/order/model.h"

namespace paceline::schedule {

Model resnet_50();   // 161 tensors, 25,557,032 parameters, batch 64
Model bert_base();   // 206 tensors, 110,111,042 parameters, batch 64
Model bert_large();  // 398 tensors, 336,232,258 parameters, batch 8

std::vector<Model> replay_models();
// Finds a replay model by its name, "ResNet-50", "BERT-Base" or "BERT-Large", in any case. THROWS
// Error (misuse).
Model replay_model(std::string_view name);

}  // namespace paceline::schedule
