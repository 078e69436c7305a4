#include "paceline/torch/replica/gradient_hooks.h"

#include <torch/torch.h>

#include <utility>

#include "paceline/torch/replica/grads/computed_parameters.h"
#include "paceline/torch/replica/grads/gradient_note.h"

namespace paceline::replica {
namespace {

GradientEvents events_of(std::size_t i, const HookListeners& to, bool computes_in_place) {
  Synchrony* const synchrony = &to.synchrony;
  GradientEvents events{[i, arriving = to.arriving] { return arriving(i); },
                        [=](bool held_elsewhere) { synchrony->arrived(i, held_elsewhere); }};
  events.factor = [weight = &to.weight] { return weight->factor(); };
  if (computes_in_place) events.gradient_memory = [=] { return synchrony->gradient_memory(i); };
  return events;
}

// The gradient of 16 bits goes on in its master's.
GradientEvents events_of_master(std::size_t i, const Parameter& parameter,
                                const HookListeners& to) {
  return {[i, parameter, arriving = to.arriving, master_arriving = to.master_arriving] {
            master_arriving();
            drop_if_elsewhere(parameter.computed);
            return arriving(i);
          },
          [i, parameter, synchrony = &to.synchrony, weight = &to.weight](bool) {
            widen_gradient(parameter, weight->factor());
            synchrony->arrived(i, false);
          }};
}

}  // namespace

std::vector<GradientHook> hooks_on(const ModelParts& parts, const HookListeners& to,
                                   bool computes_in_place) {
  const std::vector<Parameter> trained = parts.trained();
  const bool sees_gradients = to.gates.sees_gradients();
  std::vector<GradientHook> hooks;
  hooks.reserve(trained.size());
  for (std::size_t i = 0; i < trained.size(); ++i) {
    GradientEvents events = trained[i].computed.defined() ? events_of_master(i, trained[i], to)
                                                          : events_of(i, to, computes_in_place);
    if (sees_gradients) {
      events.accumulated = [i, &gates = to.gates, parameter = trained[i],
                            goes_on = std::move(events.accumulated)](bool held_elsewhere) {
        gates.gradient_made(i, parameter);
        goes_on(held_elsewhere);
      };
    }
    hooks.emplace_back(trained[i].leaf(), std::move(events));
  }
  return hooks;
}

std::string not_hooked_parameter(const ModelParts& parts, const std::vector<GradientHook>& hooks) {
  const std::vector<Parameter> trained = parts.trained();
  for (std::size_t i = 0; i < hooks.size(); ++i)
    if (!hooks[i].is_in_force(trained[i].leaf())) return trained[i].name;
  return {};
}

}  // namespace paceline::replica
