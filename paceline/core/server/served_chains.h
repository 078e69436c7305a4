// ServedChains: the chains of a job as one of its servers knows them, and what it tells the
// launcher of its place in them.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "paceline/core/job/job.h"
#include "paceline/core/job/server_words.h"
#include "paceline/core/server/control/chain_report.h"
#include "paceline/core/server/table/table_spec.h"

namespace paceline::server {

// THREAD: any.
class ServedChains {
 public:
  // The job has several replicas of each range.
  ServedChains(Job& job, const TableMembers& members, int own);

  std::vector<Chain> now() const;
  bool have_changed() const;  // since the last take_change()
  std::optional<std::vector<std::byte>> take_change();
  // This server's places in them, as it has told last: "0 (1 of 2), 2 (2 of 2, not ready)".
  std::string places() const;
  // Tells the launcher what has changed since the last report. A server is ready in a chain when all
  // its tables are.
  void report(const std::vector<std::vector<ChainReport>>& of_tables);

 private:
  void hear(Bytes chains);

  Job& job_;
  const int own_;
  mutable std::mutex mutex_;  // guards all that follows
  std::vector<Chain> chains_;
  bool has_changed_ = false;
  std::vector<ChainReport> reported_;
  job::MapWatch watch_;  // begins when all else is there
};

}  // namespace paceline::server
