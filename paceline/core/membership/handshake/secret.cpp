#include "paceline/core/membership/handshake/secret.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>

#include "paceline/core/transport/socket/file_descriptor.h"

namespace paceline::membership {
namespace {

Failure unusable_secret(std::string_view why) {
  return {Fault::misuse,
          fmt::format("the job's secret is unusable: {}; let the launcher provide it", why),
          {}};
}

int digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

Secret Secret::random() {
  Secret secret{Key()};
  if (::RAND_bytes(reinterpret_cast<unsigned char*>(secret.key_.data()), kSize) != 1) {
    throw Error({Fault::io, "the system gives no random numbers for the job's secret", {}});
  }
  return secret;
}

Secret::~Secret() {
  ::OPENSSL_cleanse(key_.data(), key_.size());
}

std::string Secret::hexadecimal() const {
  std::string text;
  for (const std::byte b : key_) text += fmt::format("{:02x}", static_cast<unsigned>(b));
  return text;
}

Result<Secret> Secret::parse(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())))
    text.remove_suffix(1);
  if (text.size() != 2 * kSize)
    return unusable_secret(fmt::format("it must be {} hexadecimal digits", 2 * kSize));
  Secret secret{Key()};  // erased on every way out
  for (std::size_t i = 0; i < kSize; ++i) {
    const int high = digit(text[2 * i]), low = digit(text[2 * i + 1]);
    if (high < 0 || low < 0)
      return unusable_secret("it holds something else than hexadecimal digits");
    secret.key_[i] = static_cast<std::byte>(high * 16 + low);
  }
  return secret;
}

Result<Secret> Secret::from_file(const std::string& path) {
  const transport::FileDescriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.is_open())
    return io_failure(fmt::format("cannot read the job's secret from {}", path), errno);
  struct stat status = {};
  if (::fstat(fd.get(), &status) != 0 || (status.st_mode & 077) != 0) {
    return unusable_secret(fmt::format("others may read {} (make it mode 0600)", path));
  }
  return from_descriptor(fd.get());
}

Result<Secret> Secret::from_descriptor(int fd) {
  std::array<char, 2 * kSize + 2> text = {};
  std::size_t length = 0;
  const bool is_pipe = ::lseek(fd, 0, SEEK_CUR) < 0 && errno == ESPIPE;
  while (length < text.size()) {
    // Processes that inherit a file share its position.
    const auto offset = static_cast<off_t>(length);
    const auto got = is_pipe ? ::read(fd, text.data() + length, text.size() - length)
                             : ::pread(fd, text.data() + length, text.size() - length, offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return io_failure("cannot read the job's secret", errno);
    if (got == 0) break;
    length += static_cast<std::size_t>(got);
  }
  auto secret = parse({text.data(), length});
  ::OPENSSL_cleanse(text.data(), text.size());
  return secret;
}

}  // namespace paceline::membership
