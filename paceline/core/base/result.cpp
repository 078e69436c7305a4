#include "paceline/core/base/result.h"

#include <fmt/format.h>

#include <cstring>

namespace paceline {
namespace {

thread_local std::weak_ptr<const Failure> last_failure;

}  // namespace

Error::Error(Failure failure) : failure_(std::make_shared<const Failure>(std::move(failure))) {
  last_failure = failure_;
}

std::optional<Failure> failure_in_flight() {
  const auto last = last_failure.lock();
  return last ? std::optional(*last) : std::nullopt;
}

std::string_view name_of(Fault fault) {
  switch (fault) {
    case Fault::misuse: return "misuse";
    case Fault::mismatch: return "mismatch";
    case Fault::peer_lost: return "peer lost";
    case Fault::timed_out: return "timed out";
    case Fault::cancelled: return "cancelled";
    case Fault::io: return "input/output";
    case Fault::refused: return "refused";
  }
  return "unknown fault";
}

void throw_misuse(std::string what) {
  throw Error({Fault::misuse, std::move(what), {}});
}

Failure io_failure(std::string_view doing, int error_number) {
  return {Fault::io, fmt::format("{}: {}", doing, std::strerror(error_number)), {}};
}

}  // namespace paceline
