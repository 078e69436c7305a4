#include "paceline/core/job/server_words.h"

#include <memory>
#include <utility>

#include "paceline/core/base/check.h"
#include "paceline/core/job/job_impl.h"

namespace paceline::job {

int replicas_of(Job& job) {
  return job.impl().environment.replicas;
}

bool is_late(Job& job) {
  return job.impl().environment.is_late();
}

void report_to_launcher(Job& job, std::vector<std::byte> report) {
  PACELINE_CHECK(report.size() <= kLongestServerWord,
                 "a server's report has {} bytes, of at most {}: a bug, please report it",
                 report.size(), kLongestServerWord);
  Job::Impl& impl = job.impl();
  impl.reactor->run([&] {
    if (impl.store) impl.store->report_of_server(report);
  });
}

void MapWatchers::tell(Bytes map) {
  newest_.emplace(map.begin(), map.end());
  const auto watchers = watchers_;
  for (const auto& [number, hear] : watchers)
    if (watchers_.contains(number)) hear(*newest_);
}

std::uint64_t MapWatchers::add(Hear hear) {
  if (newest_) hear(*newest_);
  watchers_.emplace(++last_, std::move(hear));
  return last_;
}

MapWatch::MapWatch(Job& job, MapWatchers::Hear hear) : job_(job.impl()) {
  job_.reactor->run([&] { watcher_ = job_.server_maps.add(std::move(hear)); });
}

MapWatch::~MapWatch() {
  job_.reactor->run([this] { job_.server_maps.remove(watcher_); });
}

void tell_map(Job& job, std::vector<std::byte> map) {
  Job::Impl& impl = job.impl();
  impl.reactor->run([&] { impl.server_maps.tell(map); });
}

}  // namespace paceline::job
