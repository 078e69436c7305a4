// Paceline's tables on servers: parameters that workers push to and pull from, each at its own pace
// (docs/guide/server.md).
//
//   paceline::server::Table           a table of a job, in its workers
//   paceline::server::SparseTable     rows by ids, for embeddings that are larger than a worker
//   paceline::server::LbfgsOnServers  full-batch L-BFGS, whose vectors lie on the servers
//   paceline::serve()                 the loop of a server (`paceline run -n 2 --servers 1`)
//   paceline::schedule::PushPull      sums of arrays that servers compute, without a table
#pragma once

#include "paceline/core/schedule/path/push_pull.h"
#include "paceline/core/server/server.h"
#include "paceline/paceline.h"
