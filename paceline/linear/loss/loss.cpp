#include "paceline/linear/loss/loss.h"

#include <utility>

namespace paceline::linear {

ChosenLoss::ChosenLoss(NamedChoice<Loss> choice)
    : choice_(std::move(choice)),
      setting_(choice_.settings.values.empty() ? 0 : choice_.settings.values.front().value) {}

Result<ChosenLoss> parse_loss(std::string_view text) {
  auto choice = parse_named("loss", text, built_in_losses());
  if (!choice) return choice.error();
  return ChosenLoss(*std::move(choice));
}

}  // namespace paceline::linear
