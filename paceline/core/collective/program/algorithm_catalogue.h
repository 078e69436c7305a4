// The catalogue of algorithms: a value that a caller may copy and extend with algorithms of its
// own.
//
// CMake lists algorithms/<operation>/*.cpp and generates built_in_algorithms(); file
// <operation>/<name>.cpp defines `Algorithm <name>()` in namespace
// paceline::collective::catalogue::<operation>. Nothing registers itself. A file that builds on
// other entries includes algorithm_entries.h, their declarations, which CMake writes too.
#pragma once

#include <string_view>
#include <vector>

#include "paceline/core/collective/program/program.h"

namespace paceline::collective {

using Catalogue = std::vector<Algorithm>;

Catalogue built_in_algorithms();  // sorted by operation, then by name

// nullptr when there is none. The pointer lives as long as `catalogue`.
const Algorithm* find(const Catalogue& catalogue, Operation operation, std::string_view name);
const Algorithm* find(Catalogue&&, Operation, std::string_view) = delete;

}  // namespace paceline::collective
