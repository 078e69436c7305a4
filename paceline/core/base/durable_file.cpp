#include "paceline/core/base/durable_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <random>
#include <span>
#include <utility>

#include "paceline/core/base/result.h"

namespace paceline {
namespace {

bool is_replaceable(const std::string& path) {
  struct stat status = {};
  return ::lstat(path.c_str(), &status) != 0 || S_ISREG(status.st_mode);
}

std::string directory_of_file(const std::string& path) {
  const auto slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

std::string unguessable_beside(const std::string& path) {
  std::random_device numbers;
  return fmt::format("{}.{:08x}{:08x}.part", path, numbers(), numbers());
}

[[noreturn]] void refuse_file(const std::string& what, const std::string& path,
                              const Failure& failure) {
  throw Error({Fault::io, fmt::format("cannot write the {} {}: {}", what, path, failure.what), {}});
}

}  // namespace

DurableFile::DurableFile(std::string what, std::string path)
    : disk_(own_disk_), what_(std::move(what)), path_(std::move(path)) {
  is_replaceable(path_) ? begin() : open_directly();
}

DurableFile::DurableFile(std::string what, std::string path, Disk& disk)
    : disk_(disk), what_(std::move(what)), path_(std::move(path)) {
  begin();
}

void DurableFile::begin() {
  part_ = unguessable_beside(path_);
  auto file = disk_.create(part_);
  if (!file) refuse_file(what_, path_, file.error());
  file_ = *std::move(file);
}

void DurableFile::open_directly() {
  direct_ = ::open(path_.c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC);
  if (direct_ < 0)
    throw Error(io_failure(fmt::format("cannot open the {} {}", what_, path_), errno));
}

DurableFile::~DurableFile() {
  if (direct_ >= 0) ::close(direct_);
  if (file_) (void)disk_.remove(part_);
}

void DurableFile::commit(std::string_view bytes) {
  if (direct_ >= 0) {
    while (!bytes.empty()) {
      const auto written = ::write(direct_, bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0)
        throw Error(io_failure(fmt::format("cannot write the {} {}", what_, path_), errno));
      bytes.remove_prefix(static_cast<std::size_t>(written));
    }
    return;
  }
  const auto must = [&](const Result<>& done) {
    if (!done) refuse_file(what_, path_, done.error());
  };
  must(file_->append(std::as_bytes(std::span(bytes))));
  must(file_->sync());
  must(disk_.replace(part_, path_));
  file_.reset();
  must(disk_.sync_directory(directory_of_file(path_)));
}

void check_may_be_written(const std::string& what, const std::string& path) {
  try {
    const DurableFile file(what, path);
  } catch (const Error& error) {
    throw_misuse(
        fmt::format("{}; name a file in a folder that exists and can be written", error.what()));
  }
}

}  // namespace paceline
