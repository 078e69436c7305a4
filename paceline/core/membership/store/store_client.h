// A member's connection to the store: keys while it joins, then the launcher's verdict, the map of
// servers, and its own reports.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "paceline/core/membership/handshake/handshake.h"
#include "paceline/core/transport/link/frame_connection.h"

namespace paceline::membership {

// A blocking call makes this call at that moment, and again at the one that it returns.
struct Meanwhile {
  Deadline at = Deadline::never();
  std::function<Deadline()> call = {};
};

class StoreClient {
 public:
  // Connects and introduces itself. The failure names the address and the remedy.
  static Result<std::unique_ptr<StoreClient>> connect(const std::string& address, const Hello& own,
                                                      const Secret& secret, Deadline deadline);

  // Blocking; only before serve_on(). A verdict of the launcher ends a get.
  void set(const std::string& key, Bytes value);
  Result<std::vector<std::byte>> get(const std::string& key, Deadline deadline);
  // The values that all ranks have set under `folder`, by rank, as one request: for "endpoint"
  // those of "endpoint/0", "endpoint/1", ...
  Result<std::vector<std::vector<std::byte>>> get_all(const std::string& folder, int ranks,
                                                      Deadline deadline, Meanwhile meanwhile = {});

  // The ranks that have not set their key under `folder`; all, if the store does not answer
  // within a moment.
  std::vector<int> missing(const std::string& folder, int ranks);

  // Whether the connection has ended without a word, as when the store had to make room for others.
  bool is_cut_off() const { return cut_off_; }

  // The verdict, or that the launcher is gone, if it comes by then. Only before serve_on().
  std::optional<Failure> ended(Deadline deadline);

  // From now on the poller's thread owns the connection: `on_verdict` is called when the launcher
  // says that the run has failed.
  void serve_on(transport::Poller& poller, std::function<void(const Failure&)> on_verdict);

  // Tells the launcher why this rank gives up.
  void report(const Failure& failure);

  // Tells the launcher that the checkpoint of this step is committed.
  void saved(std::uint64_t step);

  // Tells the launcher that this rank ends its Job on purpose.
  void leave();

  // For servers that are replicated (docs/guide/server.md). The launcher hears that this member is
  // linked to all others, and what a server has to say (at most 64 KiB); `on_map` is called with
  // each map, at first with the newest if one has come. THREAD: the poller's, or before serve_on().
  void linked();
  void report_of_server(Bytes report);
  void hear_map(std::function<void(Bytes map)> on_map);

  // The address by which this process reaches the store; other ranks reach it there too.
  std::string local_host() const;

 private:
  StoreClient(transport::FileDescriptor socket, const Hello& own);
  std::uint32_t ask(const std::string& key);
  Result<> wait_until(const std::function<bool()>& answered, const std::string& key,
                      Deadline deadline, Meanwhile meanwhile = {});
  Result<> on_frame(const transport::FrameHeader& header, Bytes payload);

  transport::Poller joining_;
  std::unique_ptr<transport::FrameConnection> connection_;
  std::map<std::uint32_t, std::vector<std::vector<std::byte>>> answers_;  // frames, by request
  std::map<std::string, std::vector<std::uint32_t>> asked_for_each_;      // requests, by folder
  std::uint32_t next_request_ = 1;
  std::optional<Failure> ended_;
  bool cut_off_ = false;
  std::function<void(const Failure&)> on_verdict_;
  std::optional<std::vector<std::byte>> map_;
  std::function<void(Bytes map)> on_map_;
};

}  // namespace paceline::membership
