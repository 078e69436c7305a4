#include "paceline/core/membership/store/told_wait.h"

#include <fmt/format.h>

#include <utility>

#include "paceline/core/base/log.h"

namespace paceline::membership {

bool Tellings::is_due() {
  if (!next().passed()) return false;
  while (next().passed()) next_ *= 2;
  return true;
}

double Tellings::seconds() const {
  return std::chrono::duration<double>(Clock::now() - begun_).count();
}

void tell_start(double seconds, const std::string& whom) {
  warn(fmt::format("start: for {:.3g} s {}", seconds, whom));
}

ToldWait::ToldWait(Clock::duration stall, std::function<std::string()> whom)
    : thread_([this, stall, whom = std::move(whom)] {
        Tellings tellings(stall);
        std::unique_lock lock(mutex_);
        while (!over_.wait_until(lock, tellings.next().moment(), [this] { return is_over_; })) {
          if (tellings.is_due()) tell_start(tellings.seconds(), whom());
        }
      }) {}

ToldWait::~ToldWait() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  over_.notify_one();
  thread_.join();
}

}  // namespace paceline::membership
