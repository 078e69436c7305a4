#include "paceline/app/launch/workers/server_process.h"

#include <fmt/format.h>
#include <signal.h>

#include <cstdio>

#include "paceline/core/base/check.h"
#include "paceline/core/job/job.h"
#include "paceline/core/server/server.h"

namespace paceline::launch {

int run_server() {
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2})
    ::signal(number, SIG_IGN);
  try {
    Job job = init();
    PACELINE_CHECK(job.role() == Role::server,
                   "--as-server is for `paceline run --servers` alone, which starts servers by it");
    serve(job);
    return 0;
  } catch (const Error& error) {
    fmt::print(stderr, "paceline: {}\n", error.what());
    return error.fault() == Fault::misuse ? 2 : 1;
  }
}

}  // namespace paceline::launch
