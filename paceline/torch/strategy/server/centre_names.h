// The names of the tables in which servers hold what replicas are drawn to.
#pragma once

#include <c10/util/StringUtil.h>

#include <atomic>
#include <memory>
#include <string>

#include "paceline/core/job/job_extension.h"

namespace paceline::strategy {

// Centres of one job have names of their own, by the order in which all ranks make them.
class CentreNames final : public job::JobExtension {
 public:
  static std::string next(Job& job) {
    const auto made = [] { return std::make_shared<CentreNames>(); };
    auto& names = static_cast<CentreNames&>(*job::job_extension(job, "centres", made));
    return c10::str("centre.", names.count_++);
  }

 private:
  std::atomic<int> count_ = 0;
};

}  // namespace paceline::strategy
