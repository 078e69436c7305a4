#include "paceline/core/server/made_tables.h"

#include "paceline/core/base/check.h"

namespace paceline::server {

bool is_by_servers(const Job& job, const std::optional<TableMembers>& given) {
  return job.servers() > 0 && !given;
}

TableMembers members_of(const Job& job, const std::optional<TableMembers>& given) {
  if (given) return *given;
  return is_by_servers(job, given) ? TableMembers::of_servers(job.world_size(), job.servers())
                                   : TableMembers::of_ranks(job.world_size());
}

std::shared_ptr<MadeTables> MadeTables::of(Job& job) {
  return std::static_pointer_cast<MadeTables>(
      job::job_extension(job, "tables", [] { return std::make_shared<MadeTables>(); }));
}

std::shared_ptr<const void> MadeTables::take(const std::string& name) {
  const std::lock_guard lock(mutex_);
  PACELINE_CHECK(taken_.insert(name).second,
                 "table '{}': this job has a table of that name: give this one another name, or "
                 "end the first one before",
                 name);
  return {this, [self = shared_from_this(), name](const void*) {
            const std::lock_guard locked(self->mutex_);
            self->taken_.erase(name);
          }};
}

std::uint32_t MadeTables::number_among_ranks(const std::string& name) {
  const std::lock_guard lock(mutex_);
  return among_ranks_.next(name);
}

}  // namespace paceline::server
