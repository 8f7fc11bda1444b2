// stdout for answers, stderr for everything else.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

namespace ocellus::app {

// Takes the descriptors of standard streams that the parent process closed, so that no model file becomes stdin:
// reading then finds the end and writing fails.
void reserve_standard_streams();

bool stdin_is_terminal();
bool stdout_is_terminal();

// Writes to stdout at once, made printable. Returns false if that is impossible (a full disk); flush_output tells it to
// the user.
bool print(std::string_view text);

// As print; what is no terminal gets the very bytes.
bool print_answer(std::string_view text);

// Throws a Failure if anything written so far did not arrive.
void flush_output();

// One line on stderr, made printable.
void print_note(const std::string& line);

// Several, each with its end.
void print_notes(const std::string& lines);

// "ocellus: sentence." on stderr.
void print_failure(const std::string& sentence);

// One line on stderr that says what is going on. It appears only on a terminal and only after one second.
class Progress {
 public:
  Progress(bool quiet, std::string text);
  ~Progress() { stop(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void set(std::string text);
  // Erases the line. The text to come has the terminal for itself.
  void stop();

 private:
  void show_changes();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::string text_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace ocellus::app
