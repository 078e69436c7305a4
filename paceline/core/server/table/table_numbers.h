// TableNumbers: the numbers that mark the frames of a job's tables.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>

namespace paceline::server {

// Tables on servers are numbered by multiples of this, in the order in which workers declare them.
inline constexpr std::uint32_t kBetweenNumbers = 4;

// The groups of the declarations' messages, and of push_pull's.
inline constexpr std::uint32_t kRegisterGroup = 0x74626c72, kSumGroup = 0x73756d72;

// Numbers of tables that ranks keep among themselves. Ranks that make the same tables in the same
// order give them the same numbers. Servers hear of none of these, so they have numbers apart. A
// value.
class TableNumbers {
 public:
  // Returns a number that is 2 modulo 4, which no table here has had before, also none of this
  // name. Those of communicators' groups are odd.
  std::uint32_t next(std::string_view name);

 private:
  std::map<std::string, std::uint64_t, std::less<>> tries_;  // by name
  std::set<std::uint32_t> given_ = {0, kRegisterGroup, kSumGroup};
};

}  // namespace paceline::server
