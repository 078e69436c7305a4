// PMI-1 as MPICH's Hydra speaks it: lines of "cmd=... name=value" on an inherited socket, each
// answered by one line.
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>

#include "paceline/core/membership/store/exchange.h"
#include "paceline/core/transport/socket/resolve.h"

namespace paceline::membership {
namespace {

constexpr const char* kKey = "paceline_store";

Failure unusable(std::string_view why) {
  return {Fault::io,
          fmt::format("the process manager at PMI_FD did not answer: {}; set "
                      "PACELINE_STORE=host:port, an address of rank 0's host",
                      why),
          {}};
}

Result<std::string> ask(int fd, const std::string& line, Deadline deadline) {
  if (::write(fd, line.data(), line.size()) != static_cast<ssize_t>(line.size()))
    return unusable("it cannot be written to");
  std::string answer;
  while (!answer.ends_with('\n')) {
    char one = 0;
    if (!transport::wait_for(fd, POLLIN, deadline)) return unusable("no answer in time");
    const auto got = ::read(fd, &one, 1);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0 || answer.size() > 4096) return unusable("it is gone, or speaks another protocol");
    answer += one;
  }
  answer.pop_back();
  return answer;
}

// "x" in "cmd=get_result rc=0 value=x"
Result<std::string> value_in(const Result<std::string>& answer, const std::string& name) {
  if (!answer) return answer;
  const auto at = answer.value().find(" " + name + "=");
  if (at == std::string::npos) return unusable(answer.value());
  const auto begin = at + name.size() + 2;
  return answer.value().substr(begin, answer.value().find(' ', begin) - begin);
}

class PmiSpace final : public Exchange {
 public:
  explicit PmiSpace(int fd) : fd_(fd) {}

  std::string own_host() override {
    return transport::address_for_others();
  }  // a process manager tells no way

  Result<> tell(const std::string& value, Deadline deadline) override {
    const auto space = pmi_space_name(fd_);
    if (!space) return space.error();
    const auto put =
        ask(fd_, fmt::format("cmd=put kvsname={} key={} value={}\n", space.value(), kKey, value),
            deadline);
    if (const auto code = value_in(put, "rc"); !code || code.value() != "0")
      return code ? unusable(put.value()) : code.error();
    const auto met = ask(fd_, "cmd=barrier_in\n", deadline);
    return met ? leave(deadline) : met.error();
  }

  Result<std::string> hear(Deadline deadline) override {
    const auto space = pmi_space_name(fd_);
    if (!space) return space;
    if (auto met = ask(fd_, "cmd=barrier_in\n", deadline); !met) return met;
    auto value = value_in(
        ask(fd_, fmt::format("cmd=get kvsname={} key={}\n", space.value(), kKey), deadline),
        "value");
    if (auto left = leave(deadline); !left) return left.error();
    return value;
  }

 private:
  // Hydra takes a process that spoke and ends without this for a crashed one, and kills all others.
  // After it a program can call no MPI_Init; one that wants to sets PACELINE_STORE, and nothing of
  // this is used.
  Result<> leave(Deadline deadline) {
    const auto left = ask(fd_, "cmd=finalize\n", deadline);
    return left ? Result<>(Done{}) : left.error();
  }

  int fd_;
};

}  // namespace

std::unique_ptr<Exchange> pmi_space(int fd) {
  return std::make_unique<PmiSpace>(fd);
}

Result<std::string> pmi_space_name(int fd) {
  return value_in(ask(fd, "cmd=get_my_kvsname\n", Deadline::in(std::chrono::seconds(5))),
                  "kvsname");
}

}  // namespace paceline::membership
