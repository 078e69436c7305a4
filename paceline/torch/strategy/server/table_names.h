// The names of the tables that strategies make on the job's servers.
#pragma once

#include <c10/util/StringUtil.h>

#include <atomic>
#include <memory>
#include <string>

#include "paceline/core/job/job_extension.h"

namespace paceline::strategy {

// Tables of one kind have names of their own in a job, by the order in which all ranks make them:
// "parameters.0", "parameters.1".
class TableNames final : public job::JobExtension {
 public:
  static std::string next(Job& job, const std::string& kind) {
    const auto made = [] { return std::make_shared<TableNames>(); };
    auto& names = static_cast<TableNames&>(*job::job_extension(job, "tables: " + kind, made));
    return c10::str(kind, ".", names.count_++);
  }

 private:
  std::atomic<int> count_ = 0;
};

}  // namespace paceline::strategy
