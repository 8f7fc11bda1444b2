// stdout for answers, stderr for everything else.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ocellus::app {

// Opens the standard streams that the parent process closed, so that no model file becomes stdin: reading then returns
// end of file and writing fails.
void reserve_standard_streams();

bool stdin_is_terminal();
bool stdout_is_terminal();

// Writes to stdout unbuffered, made printable. Returns false if that fails (a full disk); flush_output reports it.
bool print(std::string_view text);

// Like print(), but writes the bytes unchanged unless stdout is a terminal.
bool print_answer(std::string_view text);

// Throws a Failure if anything written so far failed.
void flush_output();

// Writes one line to stderr, made printable.
void print_note(const std::string& line);

// Writes a line to stderr for each URL of a server, `remark` after the first. On a terminal the link has the token in
// the part that browsers send nowhere; elsewhere stderr may be a log, in which no token may stay.
void print_urls(const std::vector<std::string>& urls, const std::string& token, const std::string& remark = "");

// Writes several lines, each with its newline.
void print_notes(const std::string& lines);

// Writes "ocellus: sentence." to stderr.
void print_failure(const std::string& sentence);

}  // namespace ocellus::app
