// Fabric: another project's library that carries messages between processes (UCX), and all that its
// plugin and core share. fabric_link.h makes a Link of it.
//
// Nothing calls back: the driver asks each port what has happened (FabricPort::next), so no
// frame is handled, and no port closed, in the midst of the library.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/core/base/bytes.h"
#include "paceline/core/base/result.h"

namespace paceline::transport {

// A message that has come. It lasts as long as this object, which the fabric must outlive.
class FabricMessage {
 public:
  virtual ~FabricMessage() = default;
  virtual Bytes prefix() const = 0;
  virtual std::size_t bytes() const = 0;  // of the payload, wherever it lies
  virtual bool is_here() const = 0;       // else the payload still lies with the peer
  virtual Bytes payload() const = 0;      // when it is here; aligned for numbers
};

struct FabricEvent {
  enum class Kind : std::uint8_t { arrived, fetched, sent, lost } kind = Kind::lost;
  std::uint64_t id = 0;                         // sent: as given to send()
  std::unique_ptr<FabricMessage> message = {};  // arrived
  std::string why = {};                         // lost; once, and nothing can be sent after it
};

// One lane of messages to one peer, in no promised order. THREAD: reactor's driver only, and none
// of it within progress().
class FabricPort {
 public:
  // Ends at once: from then on the library reads and writes no memory of a caller.
  virtual ~FabricPort() = default;

  // The peer must know this address to send here. Anybody who knows it can send, so it is told to
  // the peer alone.
  virtual std::vector<std::byte> address() const = 0;
  virtual Result<> connect(Bytes peers_address) = 0;
  // Both sides have heard each other. Before that nothing may be sent, and neither should end.
  virtual bool is_connected() const = 0;

  // `prefix` is copied; `payload` stays valid and unchanged until `sent`.
  virtual void send(Bytes prefix, Bytes payload, std::uint64_t id) = 0;
  // Brings the payload that is not here: `fetched` follows. `into` is message->bytes() long.
  virtual void fetch(std::unique_ptr<FabricMessage> message, MutableBytes into) = 0;

  virtual std::optional<FabricEvent> next() = 0;
};

// The fabric of one Job. THREAD: reactor's driver only.
class Fabric {
 public:
  virtual ~Fabric() = default;  // after its ports
  virtual std::unique_ptr<FabricPort> open() = 0;
  virtual bool progress() = 0;         // whether anything moved
  virtual int descriptor() const = 0;  // becomes readable by events after arm()
  virtual bool arm() = 0;  // false: something is there already, progress() must be called again
};

// One library serves the whole process and lives as long as it. THREAD: any.
class FabricLibrary {
 public:
  virtual ~FabricLibrary() = default;
  virtual std::string version() const = 0;  // "UCX 1.13.1"
  virtual Result<std::unique_ptr<Fabric>> fabric() = 0;
};

// A plugin describes itself by this, which its function kFabricEntry returns.
struct FabricPlugin {
  std::string_view interface;  // kFabricInterface of the headers that it was built with
  FabricLibrary* library;
};
using FabricEntry = FabricPlugin (*)();
inline constexpr const char* kFabricEntry = "paceline_fabric_plugin";
// Changes with this header and whatever it includes.
inline constexpr std::string_view kFabricInterface = "paceline fabric 1";

}  // namespace paceline::transport
