#include "paceline/torch/strategy/server/others_wait.h"

#include <map>
#include <utility>

#include "paceline/core/job/job_extension.h"

namespace paceline::strategy {

// Those of a job that have not ended.
class OthersWait::Started final : public job::JobExtension {
 public:
  static std::shared_ptr<Started> of(Job& job) {
    const auto made = [] { return std::make_shared<Started>(); };
    return std::static_pointer_cast<Started>(
        job::job_extension(job, "ranks that others wait for", made));
  }

  std::map<const OthersWait*, std::function<void()>> ends;
};

OthersWait::OthersWait(Job& job, std::function<void()> end) : started_(Started::of(job)) {
  started_->ends.emplace(this, std::move(end));
}

OthersWait::~OthersWait() {
  started_->ends.erase(this);
}

void let_others_go_on(Job& job) {
  const auto ends = OthersWait::Started::of(job)->ends;
  for (const auto& [one, end] : ends) end();
}

}  // namespace paceline::strategy
