// TableNumbers: the numbers that mark the frames of a job's tables.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>

namespace paceline::server {

// The groups of the declarations' messages, and of push_pull's.
inline constexpr std::uint32_t kRegisterGroup = 0x74626c72, kSumGroup = 0x73756d72;

// Members that make the same tables in the same order give them the same numbers. Servers hear of
// no table that ranks keep among themselves, so these have numbers apart. A value.
class TableNumbers {
 public:
  enum class Kept : std::uint32_t { by_servers = 0, among_ranks = 2 };
  explicit TableNumbers(Kept kept) : kept_(kept) {}

  // Returns an even number that no table here has had before, also none of this name. Those of
  // communicators' groups are odd.
  std::uint32_t next(std::string_view name);

 private:
  Kept kept_;
  std::map<std::string, std::uint64_t, std::less<>> tries_;  // by name
  std::set<std::uint32_t> given_ = {0, kRegisterGroup, kSumGroup};
};

}  // namespace paceline::server
