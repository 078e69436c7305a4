// A worker for the tests of `paceline run`. It knows nothing of Paceline but the variables in its
// environment.
//
//   launch_probe [RANK=BEHAVIOUR]... BEHAVIOUR      the last is for the ranks that are not named
//
//   exit:CODE      ends with CODE
//   die:SIGNAL     dies by SIGNAL
//   wait           says "ready PID", then waits
//   stubborn       as wait, but ignores SIGTERM and SIGINT
//   catch:CODE     as wait; says "caught SIGNAL" for each signal; SIGINT and SIGTERM end it
//   lines:COUNT    COUNT checked lines on stdout and on stderr, written in pieces of any size
//   text:COUNT     COUNT bytes without a newline
//   echo           copies stdin to stdout, then says "end of input"
//   leave          says "left PID" of a process in another session, and ends with 0
//   environment    writes the environment that it was given as JSON
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "tests/processes/programs/checked_line.h"

namespace {

using paceline::test::checked_line;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

void put(int fd, std::string_view text) {
  while (!text.empty()) {
    const auto count = ::write(fd, text.data(), text.size());
    if (count < 0) ::_exit(99);
    text.remove_prefix(static_cast<std::size_t>(count));
  }
}

void say(std::string_view text) {
  put(1, fmt::format("{}\n", text));
}

[[noreturn]] void wait_for_ever() {
  say(fmt::format("ready {}", ::getpid()));
  while (true) ::pause();
}

[[noreturn]] void be_stubborn() {
  ::signal(SIGTERM, SIG_IGN);
  ::signal(SIGINT, SIG_IGN);
  wait_for_ever();
}

[[noreturn]] void catch_signals(int code) {
  sigset_t all;
  ::sigfillset(&all);
  ::sigprocmask(SIG_BLOCK, &all, nullptr);
  say(fmt::format("ready {}", ::getpid()));
  while (true) {
    int number = 0;
    ::sigwait(&all, &number);
    say(fmt::format("caught {}", number));
    if (number == SIGINT || number == SIGTERM) ::_exit(code);
  }
}

void write_lines(int rank, int count) {
  std::mt19937 random(static_cast<unsigned>(rank) + 17);
  std::string text[2];
  for (int i = 0; i < count; ++i) {
    const std::size_t length = random() % 50 == 0 ? random() % 100'000 : random() % 200;
    for (auto& stream : text) stream += checked_line(rank, i, length) + "\n";
    while (text[0].size() > 8192) {  // pieces that end anywhere
      for (int stream = 0; stream < 2; ++stream) {
        const std::size_t piece = 1 + random() % text[stream].size();
        put(stream + 1, std::string_view(text[stream]).substr(0, piece));
        text[stream].erase(0, piece);
      }
    }
  }
  for (int stream = 0; stream < 2; ++stream) put(stream + 1, text[stream]);
}

void echo() {
  char piece[4096];
  for (ssize_t count; (count = ::read(0, piece, sizeof piece)) > 0;)
    put(1, {piece, static_cast<std::size_t>(count)});
  say("end of input");
}

void leave_somebody() {
  const pid_t child = ::fork();
  if (child == 0) {
    ::setsid();
    while (true) ::pause();
  }
  say(fmt::format("left {}", child));
}

nlohmann::json descriptors() {
  auto result = nlohmann::json::array();
  for (int fd = 0; fd < 1024; ++fd) {
    if (::fcntl(fd, F_GETFD) >= 0) result.push_back(fd);
  }
  return result;
}

nlohmann::json secret() {
  const std::string path = variable("PACELINE_SECRET_FILE");
  struct stat about = {};
  ::stat(path.c_str(), &about);
  std::ifstream file(path);
  std::string text;
  std::getline(file, text);
  const int writable = ::open(path.c_str(), O_WRONLY);
  const bool written = writable >= 0 && ::write(writable, "x", 1) == 1;
  return {{"text", text}, {"mode", about.st_mode & 0777}, {"can_be_written", written}};
}

void tell_environment() {
  nlohmann::json result;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    result["environment"][text.substr(0, text.find('='))] = text.substr(text.find('=') + 1);
  }
  sigset_t blocked;
  ::sigprocmask(SIG_BLOCK, nullptr, &blocked);
  result["blocked_signals"] = ::sigisemptyset(&blocked) == 0;
  struct sigaction pipe = {};
  ::sigaction(SIGPIPE, nullptr, &pipe);
  result["ignores_sigpipe"] = pipe.sa_handler == SIG_IGN;
  result["descriptors"] = descriptors();
  result["secret"] = secret();
  result["stdin"] = std::filesystem::read_symlink("/proc/self/fd/0").string();
  result["leads_group"] = ::getpgrp() == ::getpid();
  say(result.dump());
}

void behave(int rank, const std::string& behaviour) {
  const auto colon = behaviour.find(':');
  const auto name = behaviour.substr(0, colon);
  const int number = colon == std::string::npos ? 0 : std::atoi(behaviour.c_str() + colon + 1);
  if (name == "exit") ::_exit(number);
  if (name == "die") ::kill(::getpid(), number);
  if (name == "wait") wait_for_ever();
  if (name == "stubborn") be_stubborn();
  if (name == "catch") catch_signals(number);
  if (name == "lines") write_lines(rank, number);
  if (name == "text") put(1, std::string(static_cast<std::size_t>(number), 'x'));
  if (name == "echo") echo();
  if (name == "leave") leave_somebody();
  if (name == "environment") tell_environment();
}

}  // namespace

int main(int argc, char** argv) {
  const int rank = std::atoi(variable("PACELINE_RANK").c_str());
  const std::string mine = fmt::format("{}=", rank);
  for (int i = 1; i + 1 < argc; ++i) {
    const std::string argument = argv[i];
    if (argument.starts_with(mine)) {
      behave(rank, argument.substr(mine.size()));
      return 0;
    }
  }
  if (argc > 1) behave(rank, argv[argc - 1]);
  return 0;
}
