#include "paceline/core/server/declaring.h"

#include <fmt/format.h>

#include "paceline/core/job/companion.h"
#include "paceline/core/job/job_links.h"
#include "paceline/core/membership/generation/generation_port.h"
#include "paceline/core/server/machine/table_register.h"
#include "paceline/core/server/waking_machine.h"

namespace paceline::server {
namespace {

// A worker keeps it to declare tables as long as its job lives.
class Declarations final : public job::Companion {
 public:
  Declarations(Job& job)
      : links_(job::links_of(job)),
        machine_(job.world_size(), job.servers()),
        waking_(machine_, *links_.reactor),
        port_(links_.reactor, links_.generation, kRegisterGroup, waking_, {},
              TableMembers::of_servers(job.world_size(), job.servers()).all()) {}

  void declare(const TableSpec& spec) {
    machine_.expect_answers();
    if (!machine_.failure()) port_.tell(TableDeclarer::declaration(spec));
    const auto is_over = [&] { return machine_.is_answered() || links_.generation->is_failing(); };
    const bool over = links_.reactor->drive_until(is_over, Deadline::in(links_.timeout));
    job::check_alive(links_);
    if (auto failure = machine_.failure()) {
      if (failure->fault == Fault::peer_lost)
        failure->what = fmt::format("table '{}': {}", spec.name, failure->what);
      throw Error(std::move(*failure));
    }
    if (over) return;
    throw Error({Fault::timed_out,
                 fmt::format("the servers had no table '{}' after {} ms: all workers must make it, "
                             "and in the same order; look at the other ranks' logs",
                             spec.name, links_.timeout.count()),
                 {}});
  }

 private:
  const job::JobLinks links_;
  TableDeclarer machine_;
  WakingMachine waking_;
  membership::GenerationPort port_;
};

}  // namespace

void declare(Job& job, const TableSpec& spec) {
  const auto made = [&job] { return std::make_shared<Declarations>(job); };
  static_cast<Declarations&>(*job::companion(job, "declarations of tables", made)).declare(spec);
}

}  // namespace paceline::server
