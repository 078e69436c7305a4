// The plugin: a worker of UCX, whose progress, sleep and active messages all ports share.
#include <fmt/format.h>
#include <strings.h>
#include <ucs/config/global_opts.h>
#include <ucs/debug/debug.h>

#include <array>
#include <csignal>

#include "paceline/core/transport/frame/wire.h"
#include "paceline/plugins/ucx/ucx.h"

namespace paceline::ucx {
namespace {

constexpr std::size_t kAlignment = 64;

Result<> succeeded(ucs_status_t status, std::string_view what) {
  if (status == UCS_OK) return Done{};
  return Failure{Fault::io,
                 fmt::format("{} failed: {}; UCX_LOG_LEVEL=info tells more, and UCX_TLS which of "
                             "its transports may be used",
                             what, ucs_status_string(status)),
                 {}};
}

class UcxFabric final : public transport::Fabric {
 public:
  static Result<std::unique_ptr<transport::Fabric>> make() {
    std::unique_ptr<UcxFabric> fabric(new UcxFabric);
    if (auto made = fabric->make_context(); !made) return made.error();
    if (auto made = fabric->make_worker(); !made) return made.error();
    if (auto made = fabric->listen(); !made) return made.error();
    return std::unique_ptr<transport::Fabric>(std::move(fabric));
  }

  ~UcxFabric() override {
    if (worker_.handle != nullptr) ucp_worker_destroy(worker_.handle);
    if (context_ != nullptr) ucp_cleanup(context_);
  }

  std::unique_ptr<transport::FabricPort> open() override {
    return std::make_unique<UcxPort>(worker_);
  }
  bool progress() override { return ucp_worker_progress(worker_.handle) != 0; }
  int descriptor() const override { return descriptor_; }
  bool arm() override { return ucp_worker_arm(worker_.handle) == UCS_OK; }

 private:
  UcxFabric() = default;

  Result<> make_context() {
    ucp_config_t* settings = nullptr;
    if (auto read = succeeded(ucp_config_read(nullptr, nullptr, &settings), "ucp_config_read");
        !read)
      return read;
    // UCX refuses shared memory by default because it does not notice a peer's death there.
    // Paceline notices it by other means. A version without this setting ignores it.
    (void)ucp_config_modify(settings, "MM_ERROR_HANDLING", "y");
    ucp_params_t params = {};
    params.field_mask = UCP_PARAM_FIELD_FEATURES;
    params.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
    const ucs_status_t made = ucp_init(&params, settings, &context_);
    ucp_config_release(settings);
    return succeeded(made, "ucp_init");
  }

  Result<> make_worker() {
    ucp_worker_params_t params = {};
    params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE | UCP_WORKER_PARAM_FIELD_EVENTS |
                        UCP_WORKER_PARAM_FIELD_AM_ALIGNMENT;
    // One thread at a time uses it: the one with the reactor's baton.
    params.thread_mode = UCS_THREAD_MODE_SERIALIZED;
    params.events = UCP_WAKEUP_RX | UCP_WAKEUP_TX;
    params.am_alignment = kAlignment;
    return succeeded(ucp_worker_create(context_, &params, &worker_.handle), "ucp_worker_create");
  }

  Result<> listen() {
    ucp_am_handler_param_t handler = {};
    handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
                         UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
    handler.id = kFrames;
    handler.flags = UCP_AM_FLAG_WHOLE_MSG | UCP_AM_FLAG_PERSISTENT_DATA;
    handler.cb = on_message;
    handler.arg = &worker_;
    if (auto set = succeeded(ucp_worker_set_am_recv_handler(worker_.handle, &handler),
                             "ucp_worker_set_am_recv_handler");
        !set)
      return set;
    ucp_address_t* address = nullptr;
    std::size_t bytes = 0;
    if (auto got = succeeded(ucp_worker_get_address(worker_.handle, &address, &bytes),
                             "ucp_worker_get_address");
        !got)
      return got;
    const auto* const first = reinterpret_cast<const std::byte*>(address);
    worker_.address.assign(first, first + bytes);
    ucp_worker_release_address(worker_.handle, address);
    return succeeded(ucp_worker_get_efd(worker_.handle, &descriptor_), "ucp_worker_get_efd");
  }

  // Messages that are no frame for a port of this worker are dropped.
  static ucs_status_t on_message(void* worker, const void* header, std::size_t header_bytes,
                                 void* data, std::size_t bytes, const ucp_am_recv_param_t* param) {
    const auto& ports = static_cast<const Worker*>(worker)->ports;
    transport::WireReader reader({static_cast<const std::byte*>(header), header_bytes});
    const auto found = ports.find(reader.integer<std::uint64_t>());
    if (!reader.ok() || found == ports.end()) return UCS_OK;
    const bool is_here = (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) == 0;
    return found->second->arrived(reader.rest(), data, bytes, is_here) ? UCS_INPROGRESS : UCS_OK;
  }

  ucp_context_h context_ = nullptr;
  Worker worker_;
  int descriptor_ = -1;
};

// By default UCX writes warnings about lost peers to stdout, and catches the program's SIGSEGV.
void keep_out_of_the_way() {
  for (const int signal : {SIGILL, SIGSEGV, SIGBUS, SIGFPE}) ucs_debug_disable_signal(signal);
  std::array<char, 16> level = {};
  const bool as_ever =
      ucs_global_opts_get_value("LOG_LEVEL", level.data(), level.size()) == UCS_OK &&
      ::strcasecmp(level.data(), "warn") == 0;
  if (as_ever) ucs_global_opts_set_value("LOG_LEVEL", "fatal");
}

class UcxLibrary final : public transport::FabricLibrary {
 public:
  UcxLibrary() { keep_out_of_the_way(); }
  std::string version() const override { return fmt::format("UCX {}", ucp_get_version_string()); }
  Result<std::unique_ptr<transport::Fabric>> fabric() override { return UcxFabric::make(); }
};

}  // namespace
}  // namespace paceline::ucx

extern "C" __attribute__((visibility("default"))) paceline::transport::FabricPlugin
paceline_fabric_plugin() {
  static paceline::ucx::UcxLibrary library;
  return {paceline::transport::kFabricInterface, &library};
}
