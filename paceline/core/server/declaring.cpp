#include "paceline/core/server/declaring.h"

#include <fmt/format.h>

#include "paceline/core/job/job_extension.h"
#include "paceline/core/job/job_links.h"
#include "paceline/core/membership/generation/generation_port.h"
#include "paceline/core/server/machine/table_register.h"
#include "paceline/core/server/waiting.h"
#include "paceline/core/server/waking_machine.h"

namespace paceline::server {
namespace {

// A worker keeps it to declare tables as long as its job lives.
class Declarations final : public job::JobExtension {
 public:
  Declarations(Job& job)
      : links_(job::links_of(job)),
        machine_(job.world_size(), job.servers()),
        waking_(machine_, *links_.reactor),
        port_(links_.reactor, links_.generation, kRegisterGroup, waking_, {},
              TableMembers::of_servers(job.world_size(), job.servers()).all()) {}

  std::uint32_t declare(const TableSpec& spec) {
    const std::string what = fmt::format("the making of table '{}'", spec.name);
    links_.reactor->check_may_wait(what);
    machine_.expect_answers();
    if (!machine_.failure()) port_.tell(TableDeclarer::declaration(spec));
    wait_for_servers(links_, what, [&] { return machine_.is_answered(); },
                     {.ask = [this] { ask(); },
                      .are_answered = [this] { return machine_.has_heard(); },
                      .awaited = [this] { return machine_.awaited(); },
                      .movement = [this] { return machine_.missing_answers(); }});
    job::check_alive(links_);
    if (auto failure = machine_.failure()) {
      if (failure->fault == Fault::peer_lost)
        failure->what =
            fmt::format("table '{}': {}", spec.name, text_of_loss(links_, port_, *failure));
      throw Error(std::move(*failure));
    }
    return machine_.number();
  }

 private:
  void ask() {
    port_.tell(TableDeclarer::question());
    links_.reactor->run([] {});  // posts keep their order
  }

  const job::JobLinks links_;
  TableDeclarer machine_;
  WakingMachine waking_;
  membership::GenerationPort port_;
};

}  // namespace

std::uint32_t declare(Job& job, const TableSpec& spec) {
  const auto made = [&job] { return std::make_shared<Declarations>(job); };
  const auto own = job::job_extension(job, "declarations of tables", made);
  return static_cast<Declarations&>(*own).declare(spec);
}

}  // namespace paceline::server
