#include "paceline/torch/strategy/server/warm_start.h"

#include <map>
#include <utility>

#include "paceline/core/job/job_extension.h"

namespace paceline::strategy {

// Those of a job that have not ended.
class WarmStart::Started final : public job::JobExtension {
 public:
  static std::shared_ptr<Started> of(Job& job) {
    const auto made = [] { return std::make_shared<Started>(); };
    return std::static_pointer_cast<Started>(job::job_extension(job, "warm starts", made));
  }

  std::map<const WarmStart*, std::function<void()>> ends;
};

WarmStart::WarmStart(Job& job, std::function<void()> end) : started_(Started::of(job)) {
  started_->ends.emplace(this, std::move(end));
}

WarmStart::~WarmStart() {
  started_->ends.erase(this);
}

void end_warm_starts(Job& job) {
  const auto ends = WarmStart::Started::of(job)->ends;
  for (const auto& [one, end] : ends) end();
}

}  // namespace paceline::strategy
