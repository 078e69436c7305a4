#include "paceline/core/server/table/table_numbers.h"

#include "paceline/core/base/seed.h"

namespace paceline::server {

std::uint32_t TableNumbers::next(std::string_view name) {
  constexpr std::uint32_t kAmongRanks = 2;
  std::uint64_t& tries = tries_.emplace(name, 0).first->second;
  while (true) {
    std::uint64_t sum = mix(0x7461626c65, tries++);
    for (const char one : name) sum = mix(sum, static_cast<unsigned char>(one));
    const std::uint32_t number =
        static_cast<std::uint32_t>(sum >> 32) / kBetweenNumbers * kBetweenNumbers + kAmongRanks;
    if (given_.insert(number).second) return number;
  }
}

}  // namespace paceline::server
