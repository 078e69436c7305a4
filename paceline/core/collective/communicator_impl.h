// What a Communicator is made of: the part that runs on the caller's thread.
#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "paceline/core/collective/choice.h"
#include "paceline/core/collective/communicator.h"
#include "paceline/core/collective/group.h"

namespace paceline {

class Communicator::Impl {
 public:
  Impl(std::shared_ptr<collective::Group> group, Determinism determinism, std::chrono::milliseconds timeout);
  ~Impl();

  Work submit(collective::Request request, std::string_view algorithm, std::chrono::milliseconds within);
  collective::PointToPoint::Transfer transfer(std::string_view what, ConstBuffer buffer, int peer,
                                              const PointToPointOptions& options);

  const std::shared_ptr<collective::Group> group;
  const Determinism determinism;
  const std::chrono::milliseconds timeout;
  const int rank, size;

 private:
  std::shared_ptr<const collective::Plan> plan(const collective::Algorithm& algorithm, const collective::Shape& shape);

  collective::Choice choice;
  std::mutex mutex;
  std::map<std::pair<const collective::Algorithm*, int>, std::shared_ptr<const collective::Plan>> plans;  // by algorithm and root
};

}  // namespace paceline
