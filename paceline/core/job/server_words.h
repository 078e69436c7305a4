// The words that servers of a job with replicas and its launcher say to each other
// (docs/guide/server.md): reports of servers to the launcher, and its map of who keeps what to all
// members. They are bytes here; rooms above give them their meaning.
//
// If several servers keep each range of a table, the death of a server's process ends nothing:
// machines among members hear on_lost of it. The launcher starts the server again as a new member
// (generation.h), and tells a new map.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "paceline/core/base/bytes.h"
#include "paceline/core/job/job.h"

namespace paceline::job {

// How many servers keep each range of a table: 1 to 3.
int replicas_of(Job& job);
// Whether this process is a server that was started again: others have what it needs.
bool is_late(Job& job);

inline constexpr std::size_t kLongestServerWord = std::size_t{64} << 10;

// Tells the launcher what this server has to say, such as that it is ready; in a world of threads,
// which has no store, nobody hears it. THREAD: any. THROWS Error (misuse): it is too long.
void report_to_launcher(Job& job, std::vector<std::byte> report);

// All that hear of the launcher's map in one process, and its newest one. THREAD: the driver.
class MapWatchers {
 public:
  using Hear = std::function<void(Bytes map)>;
  void tell(Bytes map);
  std::uint64_t add(Hear hear);  // hears the newest map at once, if there is one
  void remove(std::uint64_t watcher) { watchers_.erase(watcher); }

 private:
  std::optional<std::vector<std::byte>> newest_;
  std::map<std::uint64_t, Hear> watchers_;
  std::uint64_t last_ = 0;
};

// While it lives, `hear` is called with each map of the launcher's, at first with the newest if
// there is one. It ends before the Job. THREAD: not the driver; `hear` is called on it.
class MapWatch {
 public:
  MapWatch(Job& job, MapWatchers::Hear hear);
  ~MapWatch();
  MapWatch(const MapWatch&) = delete;
  MapWatch& operator=(const MapWatch&) = delete;

 private:
  Job::Impl& job_;
  std::uint64_t watcher_ = 0;
};

// A map as from the launcher, for worlds without one. THREAD: any.
void tell_map(Job& job, std::vector<std::byte> map);

}  // namespace paceline::job
