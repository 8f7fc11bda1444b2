// One function per command: it declares the command's flags and, when the command is chosen, sets what to run.
#pragma once

#include <functional>

namespace CLI {
class App;
}

namespace ocellus::app {

// Returns the exit code, or throws a Failure.
using Action = std::function<int()>;

void add_caption_command(CLI::App* program, Action* action);
void add_ask_command(CLI::App* program, Action* action);
void add_chat_command(CLI::App* program, Action* action);
void add_plan_command(CLI::App* program, Action* action);
void add_eval_command(CLI::App* program, Action* action);
void add_perplexity_command(CLI::App* program, Action* action);
void add_calibrate_command(CLI::App* program, Action* action);
void add_bench_command(CLI::App* program, Action* action);
void add_library_command(CLI::App* program, Action* action);
void add_watch_command(CLI::App* program, Action* action);
void add_serve_command(CLI::App* program, Action* action);
void add_make_model_command(CLI::App* program, Action* action);
void add_devices_command(CLI::App* program, Action* action);
void add_pull_command(CLI::App* program, Action* action);
void add_models_command(CLI::App* program, Action* action);
void add_methods_command(CLI::App* program, Action* action);
void add_pages_command(CLI::App* program, Action* action);

}  // namespace ocellus::app
