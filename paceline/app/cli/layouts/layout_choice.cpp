#include "paceline/app/cli/layouts/layout_choice.h"

#include <fmt/format.h>

#include <algorithm>

#include "paceline/app/cli/shared/quantities.h"
#include "paceline/core/base/check.h"
#include "paceline/core/mesh/mesh.h"

namespace paceline::cli {
namespace {

constexpr int kMostRanks = 4096;

int product_of(const std::string& option, const std::string& axes) {
  int ranks = 1;
  for (const std::string& axis : split(axes, ',')) {
    const auto at = axis.find('=');
    if (at == std::string::npos) continue;  // the parser refuses it, and says what is right
    ranks *= parse_count(option, axis.substr(at + 1), 1, kMostRanks);
    PACELINE_CHECK(ranks <= kMostRanks, "{} needs more than {} ranks", option, kMostRanks);
  }
  return ranks;
}

LayoutChoice parse_layout(std::string_view option, const std::string& name) {
  LayoutChoice choice{.name = name, .option = {}};
  if (name == "none") return choice;
  choice.option = name;
  std::ranges::replace(choice.option, '+', ',');
  const std::string who = fmt::format("{}: {}", option, name);
  const auto layout = mesh::Layout::parse(choice.option, product_of(who, choice.option));
  PACELINE_CHECK(layout.has_value(), "{}: {}; \"none\" is one process", who, layout.error().what);
  choice.pp = layout.value().size({mesh::Axis::pp});
  choice.dp = layout.value().size({mesh::Axis::dp});
  choice.cp = layout.value().size({mesh::Axis::cp});
  choice.tp = layout.value().size({mesh::Axis::tp});
  return choice;
}

}  // namespace

std::vector<LayoutChoice> parse_layouts(std::string_view option, const std::string& text) {
  std::vector<LayoutChoice> choices;
  for (const std::string& name : parse_list(option, text)) {
    LayoutChoice choice = parse_layout(option, name);
    PACELINE_CHECK(std::ranges::find(choices, choice) == choices.end(),
                   "{}: {} is named twice; leave one out", option, name);
    choices.push_back(std::move(choice));
  }
  return choices;
}

}  // namespace paceline::cli
