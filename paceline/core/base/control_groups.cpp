#include "paceline/core/base/control_groups.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>

namespace paceline {
namespace {

std::vector<std::string> parts_of(const std::string& line, char separator) {
  std::vector<std::string> parts;
  std::istringstream words(line);
  for (std::string word; std::getline(words, word, separator);) parts.push_back(word);
  return parts;
}

bool lists(const std::string& names, std::string_view controller) {
  const auto all = parts_of(names, ',');
  return std::ranges::find(all, controller) != all.end();
}

// A mounted hierarchy of control groups.
struct Hierarchy {
  bool is_unified = false;  // version 2
  std::string first;        // the group visible at `folder`
  std::string folder;
};

// Parses a line of mountinfo: ... root, mount point, options ... - type, source, options of the
// type.
std::optional<Hierarchy> hierarchy_in(const std::string& line, std::string_view controller) {
  const auto words = parts_of(line, ' ');
  const auto dash = std::ranges::find(words, "-");
  if (words.size() < 6 || words.end() - dash < 4) return std::nullopt;
  const bool is_unified = dash[1] == "cgroup2";
  if (!is_unified && (dash[1] != "cgroup" || !lists(dash[3], controller))) return std::nullopt;
  return Hierarchy{is_unified, words[3], words[4]};
}

// This process's group in the hierarchy, relative to the mounted one; empty: it is the mounted one,
// or not visible.
std::string group_in(const Hierarchy& hierarchy, std::string_view controller,
                     const std::filesystem::path& root) {
  std::ifstream lines(root / "proc/self/cgroup");
  for (std::string line; std::getline(lines, line);) {
    const auto parts = parts_of(line, ':');  // number, controllers, group
    if (parts.size() < 3) continue;
    const bool is_this = hierarchy.is_unified ? parts[1].empty() : lists(parts[1], controller);
    if (!is_this) continue;
    const auto below = std::filesystem::path(parts[2]).lexically_relative(hierarchy.first);
    return below.empty() || *below.begin() == ".." ? "" : below.string();
  }
  return "";
}

}  // namespace

std::vector<ControlGroup> control_groups(std::string_view controller,
                                         const std::filesystem::path& root) {
  std::vector<ControlGroup> groups;
  std::ifstream mounts(root / "proc/self/mountinfo");
  for (std::string line; std::getline(mounts, line);) {
    const auto hierarchy = hierarchy_in(line, controller);
    if (!hierarchy) continue;
    std::filesystem::path folder = root / hierarchy->folder.substr(1);
    groups.push_back({folder, hierarchy->is_unified});
    for (const auto& name : std::filesystem::path(group_in(*hierarchy, controller, root)))
      groups.push_back({folder /= name, hierarchy->is_unified});
  }
  return groups;
}

}  // namespace paceline
