#include "paceline/core/server/declaring.h"

#include <fmt/format.h>

#include <optional>

#include "paceline/core/coordination/machine_run.h"
#include "paceline/core/job/job_extension.h"
#include "paceline/core/job/server_words.h"
#include "paceline/core/server/machine/table_register.h"
#include "paceline/core/server/run_failures.h"

namespace paceline::server {
namespace {

// A worker keeps it to declare tables as long as its job lives.
class Declarations final : public job::JobExtension {
 public:
  explicit Declarations(Job& job)
      : machine_(job.rank(), job.world_size(), job.servers(), job::replicas_of(job) > 1),
        run_(job, kRegisterGroup, TableMembers::of_servers(job.world_size(), job.servers()).all(),
             machine_) {
    const auto hear = [this](Bytes chains) {
      run_.tell({.kind = TableDeclarer::kChains, .payload = {chains.begin(), chains.end()}});
    };
    if (job::replicas_of(job) > 1) watch_.emplace(job, hear);
  }

  std::uint32_t declare(const AnyTableSpec& spec) {
    const std::string what = fmt::format("the making of table '{}'", name_of(spec));
    run_.links().reactor->check_may_wait(what);
    machine_.expect_answers();
    if (!machine_.failure())
      run_.tell(TableDeclarer::declaration(spec, kBetweenNumbers * ++declared_));
    run_.wait_and_ask(what, [&] { return machine_.is_answered(); },
                      {.ask = [this] { run_.carry_out(TableDeclarer::question()); },
                       .are_answered = [this] { return machine_.has_heard(); },
                       .awaited = [this] { return machine_.awaited(); },
                       .movement = [this] { return machine_.missing_answers(); }});
    job::check_alive(run_.links());
    check_found(run_, machine_.failure(), fmt::format("table '{}'", name_of(spec)));
    return machine_.number();
  }

 private:
  TableDeclarer machine_;
  coordination::MachineRun run_;
  std::uint32_t declared_ = 0;          // tables
  std::optional<job::MapWatch> watch_;  // of the chains of servers
};

}  // namespace

std::uint32_t declare(Job& job, const AnyTableSpec& spec) {
  const auto made = [&job] { return std::make_shared<Declarations>(job); };
  const auto own = job::job_extension(job, "declarations of tables", made);
  return static_cast<Declarations&>(*own).declare(spec);
}

}  // namespace paceline::server
