// LinkMovement: whether bytes still move on the links to those that have not answered a question.
//
// A question waits behind all that was sent before it, and its answer behind all that the other one
// sends. Over a slow network both may take long, and then nobody is to blame.
#pragma once

#include <vector>

#include "paceline/core/base/deadline.h"
#include "paceline/core/coordination/awaited.h"
#include "paceline/core/job/job_links.h"

namespace paceline::coordination {

// The links outlive it. THREAD: driver.
class LinkMovement {
 public:
  explicit LinkMovement(const job::JobLinks& links) : links_(links) {}

  // A question is asked.
  void begin();
  // Tells of silent servers what has moved since the question: they are silent no more.
  void excuse(Awaited& awaited) const;

 private:
  const job::JobLinks& links_;
  Clock::time_point begin_;
  std::vector<transport::LinkProgress> before_;  // by member
};

}  // namespace paceline::coordination
