#include "paceline/core/observe/tensorboard.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <system_error>

#include "paceline/core/base/crc32c.h"
#include "paceline/core/base/processors.h"
#include "paceline/core/base/result.h"
#include "paceline/core/observe/protobuf.h"

namespace paceline::observe {
namespace {

double wall_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string new_path(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    Failure failure =
        io_failure(fmt::format("cannot make the TensorBoard folder {}", folder), error.value());
    failure.what += ". Name a folder that can be made";
    throw Error(std::move(failure));
  }
  const auto tick = std::chrono::system_clock::now().time_since_epoch().count();
  return fmt::format("{}/events.out.tfevents.{:.0f}.{}.{}.{}", folder, wall_time(), host_name(),
                     ::getpid(), tick % 1'000'000'000);
}

std::uint32_t masked_crc(std::string_view bytes) {
  const std::uint32_t crc = crc32c(std::as_bytes(std::span(bytes)));
  return ((crc >> 15) | (crc << 17)) +
         0xa282ead8U;  // so that a CRC over bytes that hold a CRC stays good
}

template <typename T>
void append(std::string& to, T value) {
  to.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

// Field numbers of event.proto and summary.proto.
constexpr int kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5;
constexpr int kSummaryValue = 1, kTag = 1, kSimpleValue = 2;

}  // namespace

TensorBoardFile::TensorBoardFile(const std::string& folder)
    : path_(new_path(folder)), file_("TensorBoard file", path_) {
  record(
      ProtobufMessage().real(kWallTime, wall_time()).text(kFileVersion, "brain.Event:2").bytes());
}

void TensorBoardFile::write(std::int64_t step,
                            const std::vector<std::pair<std::string, double>>& scalars) {
  ProtobufMessage summary;
  for (const auto& [tag, value] : scalars) {
    summary.message(kSummaryValue, ProtobufMessage().text(kTag, tag).real(
                                       kSimpleValue, static_cast<float>(value)));
  }
  record(ProtobufMessage()
             .real(kWallTime, wall_time())
             .integer(kStep, static_cast<std::uint64_t>(step))
             .message(kSummary, summary)
             .bytes());
}

void TensorBoardFile::record(std::string_view event) {
  std::string length;
  append(length, static_cast<std::uint64_t>(event.size()));
  std::string bytes = length;
  append(bytes, masked_crc(length));
  bytes += event;
  append(bytes, masked_crc(event));
  file_.write(bytes);
}

}  // namespace paceline::observe
