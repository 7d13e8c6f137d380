// SPDX-License-Identifier: MIT
//
// The plug-in: Atari 2600 games as environments of include/gpureplay/env.h. This file and those beside it are under the
// MIT license. The shared object that build.sh makes of them contains ALE, which is under the GPL, version 2: so the
// object as a whole is under ALE's license. It is never linked into libgpureplay.
#include "failure.h"
#include "game.h"

#include <array>
#include <cctype>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <ale/common/Log.hpp>

namespace
{

using gpur_atari::Failure;
using gpur_atari::Game;

enum { MAX_GAMES = 128 }; // ALE 0.12 has 104

thread_local char message[gpur_atari::MAX_MESSAGE];

// Makes a call. What it throws becomes the sentence that it returns.
template <typename Call> const char *guarded(Call &&call)
{
    try {
        call();
        return nullptr;
    } catch (const std::exception &error) {
        std::snprintf(message, sizeof message, "%s", error.what());
    } catch (const char *text) { // as parts of ALE do
        std::snprintf(message, sizeof message, "ALE: %s", text);
    } catch (...) {
        std::snprintf(message, sizeof message, "ALE failed without a message");
    }
    return message;
}

// A type of environment for each game that was asked for. `init`
// gets no type, so each type has an init of its own, which knows its place.
struct Entry {
    std::string rom, title;
    gpur_env_type type;
};

std::mutex entries_mutex;
std::array<Entry, MAX_GAMES> entries;
size_t num_entries;

template <size_t place> const char *init(const char *options, uint64_t seed, gpur_env_info *info, void **env)
{
    *env = nullptr;
    return guarded([&] {
        auto game = std::make_unique<Game>(gpur_atari::read_options(options, entries[place].rom), seed);
        game->describe_to(info);
        *env = game.release();
    });
}

using Init = decltype(gpur_env_type::init);

template <size_t... places> constexpr std::array<Init, MAX_GAMES> inits_of(std::index_sequence<places...>)
{
    return {init<places>...};
}

constexpr std::array<Init, MAX_GAMES> inits = inits_of(std::make_index_sequence<MAX_GAMES>());

const char *reset(void *env, void *obs)
{
    return guarded([&] { static_cast<Game *>(env)->reset(static_cast<uint8_t *>(obs)); });
}

const char *step(void *env, const void *action, void *obs, gpur_env_result *result)
{
    return guarded([&] {
        int32_t number;
        std::memcpy(&number, action, sizeof number);
        static_cast<Game *>(env)->step(number, static_cast<uint8_t *>(obs), result);
    });
}

void close(void *env)
{
    delete static_cast<Game *>(env);
}

const char *save(void *env, void *state)
{
    return guarded([&] { static_cast<Game *>(env)->save(static_cast<uint8_t *>(state)); });
}

const char *load(void *env, const void *state)
{
    return guarded([&] { static_cast<Game *>(env)->load(static_cast<const uint8_t *>(state)); });
}

// "MsPacman" of "ms_pacman"
std::string title_of(const std::string &rom)
{
    std::string title;
    bool is_first = true;
    for (const char letter : rom) {
        if (letter != '_')
            title += is_first ? static_cast<char>(std::toupper(static_cast<unsigned char>(letter))) : letter;
        is_first = letter == '_' || std::isdigit(static_cast<unsigned char>(letter));
    }
    return title;
}

void fill_entry(Entry *entry, const std::string &rom, Init init_of_place)
{
    static const std::string all_help = std::string(gpur_atari::game_help) + gpur_atari::options_help;
    entry->rom = rom;
    entry->title = rom.empty() ? "Atari" : title_of(rom);
    entry->type.size = sizeof entry->type;
    entry->type.name = entry->title.c_str();
    entry->type.options = rom.empty() ? all_help.c_str() : gpur_atari::options_help;
    entry->type.init = init_of_place;
    entry->type.reset = reset;
    entry->type.step = step;
    entry->type.close = close;
    entry->type.save = save;
    entry->type.load = load;
}

const gpur_env_type *type_of(const std::string &game)
{
    const std::string rom = gpur_atari::rom_name(game);
    if (rom.empty() && !game.empty())
        return nullptr;
    const std::lock_guard<std::mutex> lock(entries_mutex);
    size_t place = 0;
    while (place < num_entries && entries[place].rom != rom)
        place++;
    if (place == MAX_GAMES)
        return nullptr;
    if (place == num_entries) {
        ale::Logger::setMode(ale::Logger::Error); // ALE is not to print what it does
        fill_entry(&entries[place], rom, inits[place]);
        num_entries++;
    }
    return &entries[place].type;
}

} // namespace

// "Pong", "MsPacman" or "ms_pacman"; "" is a type whose options name the game.
extern "C" const gpur_env_type *gpur_env_plugin(const char *name)
{
    const gpur_env_type *type = nullptr;
    return !name || guarded([&] { type = type_of(name); }) ? nullptr : type;
}

extern "C" const char *gpur_env_plugin_name(int32_t index)
{
    const char *name = nullptr;
    guarded([&] {
        static const std::vector<std::string> titles = [] {
            std::vector<std::string> all;
            for (const std::string &rom : gpur_atari::rom_names())
                all.push_back(title_of(rom));
            return all;
        }();
        if (index >= 0 && static_cast<size_t>(index) < titles.size())
            name = titles[static_cast<size_t>(index)].c_str();
    });
    return name;
}
