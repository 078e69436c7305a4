// MadeTables: the tables that a worker has made in its job, by name.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "paceline/core/job/job_extension.h"
#include "paceline/core/server/table/table_numbers.h"
#include "paceline/core/server/table/table_spec.h"

namespace paceline::server {

// Whether the servers of the job keep a table for which these members are given, or none.
bool is_by_servers(const Job& job, const std::optional<TableMembers>& given);
// The members of a table for which these are given, or none: then the workers and the servers of the
// job, or all its ranks in both places.
TableMembers members_of(const Job& job, const std::optional<TableMembers>& given);

// THREAD: any.
class MadeTables final : public job::JobExtension, public std::enable_shared_from_this<MadeTables> {
 public:
  static std::shared_ptr<MadeTables> of(Job& job);

  // The name is taken while what this returns lives. THROWS Error (misuse): it is taken.
  std::shared_ptr<const void> take(const std::string& name);
  // The number of a table that ranks keep among themselves, which all make in one order.
  std::uint32_t number_among_ranks(const std::string& name);

 private:
  std::mutex mutex_;  // guards both
  std::set<std::string> taken_;
  TableNumbers among_ranks_;
};

}  // namespace paceline::server
